"""Into the compiler: programs that run the orders found here, and what their memory is made of."""
