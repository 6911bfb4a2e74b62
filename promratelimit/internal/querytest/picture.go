package querytest

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// chart is a panel of the dashboard with its data, to be drawn. It is no picture of Grafana: it has
// the same place, title and queries, and is drawn as plainly as a document needs.
type chart struct {
	title      string
	unit       string // Grafana's name of it
	x, y, w, h int    // in the dashboard's grid
	kind       string // "row", "stat" or "timeseries"
	stacked    bool
	log        bool // the axis
	lines      []line
	text       string // of a stat, in place of its value
	colour     string // of a stat, Grafana's name
}

// line is one series: the values at equal distances, NaN for none.
type line struct {
	name   string
	values []float64
}

// The size of a cell of the grid, and of what is in a panel, in pixels.
const (
	cellWidth, cellHeight = 50, 27
	margin                = 4
	titleHeight           = 24
	axisWidth             = 52
	axisHeight            = 16
	legendLine            = 14
	legendLines           = 4
)

// The colours of Okabe and Ito, which differ for all eyes.
var colours = []string{"#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C6D00", "#555555"}

// statColours are Grafana's colours, dark enough for text.
var statColours = map[string]string{"green": "#1a7f37", "yellow": "#9a6700", "red": "#cf222e"}

// drawing is an SVG that grows.
type drawing struct {
	strings.Builder
	length time.Duration // of the time axis
}

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// draw returns the charts as an SVG. length is the time that their lines cover.
func draw(charts []chart, length time.Duration) string {
	height := 0
	for _, c := range charts {
		height = max(height, (c.y+c.h)*cellHeight)
	}
	d := &drawing{length: length}
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="11" fill="#1f2328">`,
		24*cellWidth, height+margin)
	d.put(`<rect width="100%%" height="100%%" fill="#f6f8fa"/>`)
	for i := range charts {
		c := &charts[i]
		x, y := c.x*cellWidth+margin, c.y*cellHeight+margin
		w, h := c.w*cellWidth-2*margin, c.h*cellHeight-2*margin
		d.put(`<g transform="translate(%d %d)">`, x, y)
		switch c.kind {
		case "row":
			d.put(`<text x="2" y="16" font-size="13" font-weight="600">%s</text>`, escape(c.title))
		case "stat":
			d.stat(c, w, h)
		default:
			d.series(c, w, h)
		}
		d.put(`</g>`)
	}
	d.put(`</svg>`)
	return d.String()
}

func (d *drawing) frame(c *chart, w, h int) {
	d.put(`<rect width="%d" height="%d" rx="4" fill="#ffffff" stroke="#d0d7de"/>`, w, h)
	d.put(`<text x="8" y="16" font-size="12" font-weight="600">%s</text>`, escape(c.title))
}

func (d *drawing) stat(c *chart, w, h int) {
	d.frame(c, w, h)
	text, colour := c.text, statColours[c.colour]
	if text == "" {
		text = "0"
		if len(c.lines) > 0 {
			text = inUnit(last(c.lines[0].values), c.unit)
		}
	}
	d.put(`<text x="%d" y="%d" font-size="28" font-weight="600" text-anchor="middle" fill="%s">%s</text>`, w/2, h/2+20, colour, escape(text))
}

// series draws the lines with their axes and a legend, the largest first.
func (d *drawing) series(c *chart, w, h int) {
	d.frame(c, w, h)
	lines := slices.Clone(c.lines)
	slices.SortStableFunc(lines, func(a, b line) int {
		switch top, other := highest(a.values), highest(b.values); {
		case top > other:
			return -1
		case top < other:
			return 1
		}
		return 0
	})
	a := newAxis(lines, c)
	left, top := axisWidth, titleHeight+4
	width, height := w-axisWidth-12, h-titleHeight-axisHeight-legendLines*legendLine-12
	at := func(i, n int, v float64) string {
		return fmt.Sprintf("%.1f,%.1f", float64(left)+float64(width*i)/float64(max(n-1, 1)), float64(top)+float64(height)*(1-a.share(v)))
	}
	for _, tick := range a.ticks {
		y := float64(top) + float64(height)*(1-a.share(tick))
		d.put(`<path d="M%d %.1fh%d" stroke="#d8dee4" stroke-width="0.7"/>`, left, y, width)
		d.put(`<text x="%d" y="%.1f" font-size="10" text-anchor="end" fill="#57606a">%s</text>`, left-5, y+3.5, inUnit(tick, c.unit))
	}
	for i := range 4 {
		x := left + width*i/3
		text := (d.length * time.Duration(i) / 3).Round(time.Second).String()
		anchor := "middle"
		if i == 3 {
			anchor = "end"
		}
		d.put(`<text x="%d" y="%d" font-size="10" text-anchor="%s" fill="#57606a">%s</text>`, x, top+height+13, anchor, text)
	}
	under := make([]float64, 0)
	for k, l := range lines {
		colour := colours[k%len(colours)]
		if c.stacked && highest(l.values) > 0 {
			under = d.area(l.values, under, colour, at)
		} else if !c.stacked {
			d.path(l.values, colour, at)
		}
		if k < 2*legendLines {
			x, y := 10+(k%2)*w/2, top+height+axisHeight+16+k/2*legendLine
			name := fmt.Sprintf("%s: %s", l.name, inUnit(last(l.values), c.unit))
			if k == 2*legendLines-1 && len(lines) > 2*legendLines {
				name, colour = fmt.Sprintf("and %d more", len(lines)-k), "#57606a"
			}
			d.put(`<path d="M%d %dh10" stroke="%s" stroke-width="3"/><text x="%d" y="%d" font-size="10.5">%s</text>`, x, y-3, colour, x+14, y, escape(name))
		}
	}
	if len(lines) == 0 {
		d.put(`<text x="%d" y="%d" text-anchor="middle" fill="#57606a">no data</text>`, left+width/2, top+height/2)
	}
}

// path draws a line, with gaps where there is no value.
func (d *drawing) path(values []float64, colour string, at func(i, n int, v float64) string) {
	var path strings.Builder
	move := "M"
	for i, v := range values {
		if math.IsNaN(v) {
			move = "M"
			continue
		}
		path.WriteString(move + at(i, len(values), v))
		move = "L"
	}
	d.put(`<path d="%s" fill="none" stroke="%s" stroke-width="1.4" stroke-linejoin="round"/>`, &path, colour)
}

// area draws values on top of those below, and returns the new top.
func (d *drawing) area(values, under []float64, colour string, at func(i, n int, v float64) string) []float64 {
	over := make([]float64, len(values))
	points := make([]string, 0, 2*len(values))
	for i, v := range values {
		if i < len(under) {
			over[i] = under[i]
		}
		if !math.IsNaN(v) {
			over[i] += v
		}
		points = append(points, at(i, len(values), over[i]))
	}
	for i := len(values) - 1; i >= 0; i-- {
		low := 0.0
		if i < len(under) {
			low = under[i]
		}
		points = append(points, at(i, len(values), low))
	}
	d.put(`<polygon points="%s" fill="%s" fill-opacity="0.55" stroke="%s" stroke-width="0.6"/>`, strings.Join(points, " "), colour, colour)
	return over
}

func escape(text string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(text))
	return b.String()
}
