package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The scenes, and what is written over them.
const (
	retrying = "retry"
	limited  = "ratelimit"
)

var titles = []struct{ name, text string }{
	{retrying, "with a retry loop (1 s, doubled, 6 attempts)"},
	{limited, "with go-ratelimit"},
}

// The picture, in pixels.
const (
	width     = 784
	left      = 48
	perSecond = 6
	seconds   = 120
	height    = 132 // of a scene
	scale     = 2   // pixels of a request in the last minute
	top       = 46
	between   = 66
)

// style has colours that tell apart without red and green, on a ground of its own: a page may be
// dark where the reader's system is not.
const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.s{font-size:11px;fill:#59636e}.n{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:#fff}.w{fill:#0a7d6e;fill-opacity:.18}.l{stroke:#d1d9e0}.q{stroke:#59636e;stroke-dasharray:5 4}
.c,.q,.l,.a,.r{fill:none}.c{stroke:#0969da;stroke-width:1.6}.a{stroke:#0969da}.r{stroke:#d1570a}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.b{fill:#0d1117}.l{stroke:#3d444d}.q{stroke:#9198a1}.w{fill:#4fd1bd;fill-opacity:.25}.c,.a{stroke:#58a6ff}.r{stroke:#ff9b50}}
</style>
`

// scene is what happened in one of the runs, each in the order of time.
type scene map[string][]time.Duration

// parse reads a recording.
func parse(text string) (map[string]scene, error) {
	scenes := make(map[string]scene)
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fields := strings.Split(line, ",")
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: want three fields: %q", n+1, line)
		}
		ms, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if scenes[fields[0]] == nil {
			scenes[fields[0]] = make(scene)
		}
		scenes[fields[0]][fields[1]] = append(scenes[fields[0]][fields[1]], time.Duration(ms)*time.Millisecond)
	}
	return scenes, nil
}

// within returns how many instants lie in the minute that ends at an instant.
func within(instants []time.Duration, at time.Duration) int {
	n := 0
	for _, i := range instants {
		if i <= at && i > at-time.Minute {
			n++
		}
	}
	return n
}

// until returns how many instants are over.
func until(instants []time.Duration, at time.Duration) int {
	n, _ := slices.BinarySearch(instants, at+1)
	return n
}

// waiting returns how many callers have asked, and have neither got through nor given up.
func (s scene) waiting(at time.Duration) int {
	return until(s[asked], at) - until(s[arrived], at) - until(s[failed], at)
}

// draw is the picture as an SVG.
func draw(scenes map[string]scene) string {
	var b strings.Builder
	full := top + len(titles)*(height+between) - 22
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`+"\n", width, full, width, full)
	b.WriteString("<title id=\"t\">120 calls in 75 s to a provider that allows 60 a minute</title>\n<desc id=\"d\">")
	for _, t := range titles {
		fmt.Fprintf(&b, "%s: %s. ", t.text, scenes[t.name].summary())
	}
	fmt.Fprintf(&b, "</desc>\n%s<rect class=\"b\" width=\"%d\" height=\"%d\"/>\n", style, width, full)
	for i, t := range titles {
		scenes[t.name].draw(&b, t.text, top+i*(height+between))
	}
	legend(&b)
	b.WriteString("</svg>\n")
	return b.String()
}

func (s scene) summary() string {
	last := slices.Max(append(s[arrived][:len(s[arrived]):len(s[arrived])], s[failed]...))
	return fmt.Sprintf("%d calls answered, %d failed, %d × 429, over after %d s",
		len(s[arrived]), len(s[failed]), len(s[refused]), (last+time.Second/2)/time.Second)
}

// draw draws a scene whose upper edge is at y.
func (s scene) draw(b *strings.Builder, title string, y int) {
	base := y + height
	fmt.Fprintf(b, `<text class="n" x="%d" y="%d">%s</text><text class="e" x="%d" y="%d">%s</text>`+"\n", left, y-8, title, width-16, y-8, s.summary())
	for t := 0; t <= seconds; t += 15 {
		fmt.Fprintf(b, `<path class="l" d="M%d %dV%d"/><text class="s m" x="%d" y="%d">%d s</text>`+"\n", left+t*perSecond, y, base+22, left+t*perSecond, base+36, t)
	}
	limit := base - allowed*scale
	fmt.Fprintf(b, `<path class="q" d="M%d %dH%d"/><text class="s e" x="%d" y="%d">%d</text><text class="s e" x="%d" y="%d">0</text>`+"\n",
		left, limit, left+seconds*perSecond, left-6, limit+4, allowed, left-6, base+4)
	s.area(b, base)
	s.curve(b, base)
	strokes(b, "a", s[arrived], base+3)
	strokes(b, "r", s[refused], base+13)
}

// area draws how many callers wait.
func (s scene) area(b *strings.Builder, base int) {
	fmt.Fprintf(b, `<path class="w" d="M%d %d`, left, base)
	for half := range seconds * 2 {
		n := s.waiting(time.Duration(half) * time.Second / 2)
		fmt.Fprintf(b, "V%dh%d", base-scale*max(n, 0), perSecond/2)
	}
	fmt.Fprintf(b, "V%dZ\"/>\n", base)
}

// curve draws how many requests the provider has counted in the last minute.
func (s scene) curve(b *strings.Builder, base int) {
	fmt.Fprintf(b, `<path class="c" d="M%d %d`, left, base)
	for half := range seconds * 2 {
		n := within(s[arrived], time.Duration(half)*time.Second/2)
		fmt.Fprintf(b, "V%dh%d", base-scale*n, perSecond/2)
	}
	b.WriteString("\"/>\n")
}

// strokes draws one at each instant.
func strokes(b *strings.Builder, class string, instants []time.Duration, y int) {
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	for _, at := range instants {
		x := left + float64(at.Milliseconds()*perSecond/100)/10
		fmt.Fprintf(b, "M%s %dv8", strconv.FormatFloat(x, 'f', -1, 64), y)
	}
	b.WriteString("\"/>\n")
}

func legend(b *strings.Builder) {
	for i, l := range []struct{ class, text string }{
		{"c", "requests in the last minute"}, {"q", "the limit"}, {"a", "answered"}, {"r", "answered 429"},
	} {
		x := left + []int{0, 215, 310, 405}[i]
		fmt.Fprintf(b, `<path class="%s" style="stroke-width:2" d="M%d 14h16"/><text x="%d" y="18">%s</text>`+"\n", l.class, x, x+21, l.text)
	}
	fmt.Fprintf(b, `<rect class="w" x="%d" y="8" width="16" height="12"/><text x="%d" y="18">callers that wait</text>`+"\n", left+525, left+546)
}
