package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The figure, in pixels.
const (
	width      = 960
	left       = 150 // where time begins
	perSecond  = 132
	seconds    = 5
	top        = 74
	row        = 52
	lane       = 17 // the height of the strokes of a lane
	fullHeight = top + 9*row + 30
)

// style has colours that tell apart without red and green, on a ground of its own: a
// page may be dark where the reader's system is not.
const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.s{font-size:11px}.s,.g{fill:#59636e}.n{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:#fff}.p{fill:#f1f4f7}.l{stroke:#d1d9e0;stroke-width:1}
.a,.r,.d{fill:none;stroke-width:.6}.a{stroke:#0969da}.r{stroke:#d1570a}.d{stroke:#0a7d6e}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s,.g{fill:#9198a1}.b{fill:#0d1117}.p{fill:#171d26}.l{stroke:#3d444d}.a{stroke:#58a6ff}.r{stroke:#ff9b50}.d{stroke:#4fd1bd}}
</style>
`

// fine is how many steps make a pixel. Places are whole steps, so that they are the same
// on every processor.
const fine = 20

// x is where an instant lies, in steps.
func x(at time.Duration) int {
	return left*fine + int((at*perSecond*fine+time.Second/2)/time.Second)
}

// number writes so many steps, in pixels.
func number(steps int) string {
	return strings.TrimPrefix(strconv.FormatFloat(float64(steps)/fine, 'f', -1, 64), "0")
}

// figure is the picture as an SVG.
func figure() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`+"\n",
		width, fullHeight, width, fullHeight)
	b.WriteString("<title id=\"t\">One workload and every algorithm</title>\n")
	fmt.Fprintf(&b, "<desc id=\"d\">400 requests in 4 seconds at a limit of 100 a second:%s</desc>\n", summary())
	b.WriteString(style)
	fmt.Fprintf(&b, `<rect class="b" width="%d" height="%d"/>`+"\n", width, fullHeight)
	axes(&b)
	for i, a := range algorithms {
		drawRow(&b, a, top+i*row)
	}
	legend(&b)
	b.WriteString("</svg>\n")
	return b.String()
}

func summary() string {
	parts := make([]string, 0, len(algorithms))
	for _, a := range algorithms {
		_, all := tally(a.run(start))
		parts = append(parts, fmt.Sprintf(" %s admits %d", a.name, all))
	}
	return strings.Join(parts, ",") + "."
}

func axes(b *strings.Builder) {
	bottom := top + len(algorithms)*row
	for _, p := range phases {
		fmt.Fprintf(b, `<rect class="p" x="%s" y="%d" width="%s" height="%d"/>`+"\n",
			number(x(p.from)), top-20, number(x(p.to)-x(p.from)), bottom-top+20)
		fmt.Fprintf(b, `<text class="s m" x="%s" y="%d">%d in %v</text>`+"\n", number(x((p.from+p.to)/2)), top-26, p.requests, p.to-p.from)
	}
	for s := range seconds + 1 {
		at := number(x(time.Duration(s) * time.Second))
		fmt.Fprintf(b, `<path class="l" d="M%s %dV%d"/><text class="s m" x="%s" y="%d">%d s</text>`+"\n", at, top-20, bottom, at, bottom+16, s)
	}
	fmt.Fprintf(b, `<text class="s e" x="%d" y="%d">admitted of 400</text>`+"\n", width-16, top-26)
}

// drawRow draws what came as one stroke each: what was admitted above, and below it what
// was refused, or for what queues when it starts.
func drawRow(b *strings.Builder, a algorithm, y int) {
	outcomes := a.run(start)
	each, all := tally(outcomes)
	var admitted, refused, started []time.Duration
	queues := false
	for _, o := range outcomes {
		if !o.admitted {
			refused = append(refused, o.at)
			continue
		}
		admitted, started = append(admitted, o.at), append(started, o.starts)
		queues = queues || o.starts != o.at
	}
	fmt.Fprintf(b, `<path class="l" d="M16 %dH%d"/><text class="n" x="16" y="%d">%s</text>`+"\n", y, width-16, y+30, a.name)
	strokes(b, "a", admitted, y+8)
	strokes(b, "r", refused, y+10+lane)
	if queues {
		strokes(b, "d", started, y+10+lane)
	}
	fmt.Fprintf(b, `<text class="n e" x="%d" y="%d">%d</text><text class="s e" x="%d" y="%d">%d + %d + %d</text>`+"\n",
		width-16, y+23, all, width-16, y+40, each[0], each[1], each[2])
}

// strokes draws one at each instant, from the end of the one before. One alone is wider,
// to be seen.
func strokes(b *strings.Builder, class string, instants []time.Duration, y int) {
	if len(instants) == 0 {
		return
	}
	last := x(instants[0])
	fmt.Fprintf(b, `<path class="%s" `, class)
	if len(instants) == 1 {
		b.WriteString(`style="stroke-width:2" `)
	}
	fmt.Fprintf(b, `d="M%s %dv%d`, number(last), y, lane)
	for _, at := range instants[1:] {
		fmt.Fprintf(b, "m%s-%dv%d", number(x(at)-last), lane, lane)
		last = x(at)
	}
	b.WriteString("\"/>\n")
}

func legend(b *strings.Builder) {
	at := left
	for _, l := range []struct{ class, text string }{{"a", "admitted"}, {"r", "refused"}, {"d", "starts, where it queues"}} {
		fmt.Fprintf(b, `<path class="%s" style="stroke-width:3" d="M%d 22h18"/><text x="%d" y="26">%s</text>`+"\n", l.class, at, at+24, l.text)
		at += 100
	}
	fmt.Fprintf(b, `<text class="g e" x="%d" y="26">at most 100 a second, and 100 at once</text>`+"\n", width-16)
}
