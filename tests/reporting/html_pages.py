"""HTML pages read back, and what holds for each of them."""

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "col"}


class Page(HTMLParser):
    """Checks that elements nest; keeps tags, ids, the embedded data and the text outside it."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.data, self.text = [], [], [], "", ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append((tag, dict(attributes).get("id")))

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for key, value in attributes if key == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += text
        elif self.open and self.open[-1][0] not in ("script", "style"):
            self.text += f"{text} "


def read_page(path):
    return Page(path.read_text(encoding="utf-8"))


def check_self_contained(path):
    """Ids are unique, every part is filled in, and nothing stands in another file."""
    page = read_page(path)
    assert len(page.ids) == len(set(page.ids))
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:").startswith("data:")
    text = path.read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert not any(mark in text for mark in ("@@", "{{", "{%"))


def check_labels(path):
    """Every field of a form begins in the line of its label."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if "<input" in line or "<select" in line:
            assert line.startswith("<label"), line
