"""What texts of modules have in common."""

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}
"""
"""What all-reduces apply."""
