"""How tensors and modules show themselves in notebooks: _repr_html_, at most some kilobytes, everything escaped."""
import math
from html import escape

import rushlight as torch

SIDE = 16           # cells of the little map
ROWS = 60           # lines of a module's tree


def tensor_html(tensor):
    """Shape, dtype, a few numbers about the elements, and a map of the last two dimensions."""
    t = tensor.detach()
    facts = ["%s %s" % (str(t.dtype).split(".")[-1], list(t.shape)), str(t.device)]
    if tensor.requires_grad:
        facts.append("requires_grad" if tensor.grad_fn is None else escape(tensor.grad_fn.name()))
    plain = t.device.type == "cpu" and t.layout is torch.strided and t.numel() and not t.dtype.is_complex
    picture = ""
    if plain:
        x = t.to(torch.float64)
        finite = x[torch.isfinite(x)]
        if finite.numel():
            facts.append("min %.4g, mean %.4g, max %.4g" % (finite.min(), finite.mean(), finite.max()))
        for what, count in (("NaN", torch.isnan(x).sum()), ("Inf", torch.isinf(x).sum())):
            if count:
                facts.append("%d %s" % (count, what))
        picture = _map(x)
    text = repr(tensor) if tensor.numel() <= 200 else ""
    return ("<div style='font-family:monospace'><div><b>%s</b></div>%s%s</div>"
            % (escape(" · ".join(facts)), picture, "<pre>%s</pre>" % escape(text[:6000]) if text else ""))


def _map(x):
    """A table of coloured cells: of at most SIDE x SIDE elements, evenly chosen; blue below 0, red above."""
    while x.dim() > 2:
        x = x[0]
    if x.dim() == 0:
        return ""
    if x.dim() == 1:
        x = x[None]
    for dim in (0, 1):
        n = x.size(dim)
        if n > SIDE:
            x = x.index_select(dim, torch.arange(SIDE) * n // SIDE)
    top = max((abs(v) for row in x.tolist() for v in row if math.isfinite(v)), default=0) or 1
    rows = []
    for row in x.tolist():
        cells = "".join("<td style='background:%s;width:6px;height:6px;padding:0'></td>" % _colour(v, top) for v in row)
        rows.append("<tr>%s</tr>" % cells)
    return "<table style='border-spacing:0;border-collapse:collapse;margin:4px 0'>%s</table>" % "".join(rows)


def _colour(value, top):
    if not math.isfinite(value):
        return "#000"
    fade = "%02x" % (255 - int(min(abs(value) / top, 1) * 200))
    return "#ff%s%s" % (fade, fade) if value >= 0 else "#%s%sff" % (fade, fade)


def module_html(module):
    """The tree of modules, to be unfolded, with the parameters of each."""
    lines = [0]

    def branch(m, name):
        lines[0] += 1
        count = sum(p.numel() for p in m.parameters())
        extra = m.extra_repr()
        title = "%s<b>%s</b>%s%s" % ("%s: " % escape(name) if name else "", escape(m._get_name()),
                                     "(%s)" % escape(extra[:200]) if extra else "",
                                     " <i>%s</i>" % format(count, ",") if count else "")
        children = list(m.named_children())
        if not children:
            return "<div style='margin-left:1.2em'>%s</div>" % title
        inner = []
        for key, child in children:
            if lines[0] >= ROWS:
                inner.append("<div style='margin-left:1.2em'>…</div>")
                break
            inner.append(branch(child, key))
        return "<details %s style='margin-left:1.2em'><summary>%s</summary>%s</details>" % ("" if name else "open", title, "".join(inner))

    return "<div style='font-family:monospace'>%s</div>" % branch(module, "")
