package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	sim "dappco.re/go/core/go-ratelimit/internal/test/adaptivesim"
)

// failsafe is the run of failsafe-go's adaptive limiter, which needs a module of its own: see
// ../peers.
//
//go:embed failsafe.csv
var failsafe string

// The figure, in pixels.
const (
	width     = 960
	left      = 46 // where time begins
	perMinute = 22
	top       = 66
	panel     = 168
	plot      = 120 // the height of a panel's plot
	perCall   = 4   // the height of a call a second
	mostCalls = plot / perCall
	point     = 10 // seconds, the mean of which is a point
)

// style has colours that tell apart without red and green, on a ground of its own: a page may
// be dark where the reader's system is not.
const style = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.s{font-size:11px;fill:#59636e}.n{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:#fff}.c{fill:#dfe5eb}.l{stroke:#d1d9e0;stroke-width:1}
.a,.r{fill:none;stroke-width:1.6;stroke-linejoin:round}.a{stroke:#0969da}.r{stroke:#d1570a}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.b{fill:#0d1117}.c{fill:#262e39}.l{stroke:#3d444d}.a{stroke:#58a6ff}.r{stroke:#ff9b50}}
</style>
`

// row is a panel: a limiter and its run.
type row struct {
	name    string
	seconds []sim.Second
}

// figure is the picture as an SVG.
func figure() (string, error) {
	run := sim.Changing()
	rows, err := rows(run)
	if err != nil {
		return "", err
	}
	height := top + len(rows)*panel
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`+"\n",
		width, height, width, height)
	b.WriteString("<title id=\"t\">Limiters and a provider whose capacity changes</title>\n<desc id=\"d\">")
	b.WriteString("40 minutes at 10, 20, 5, 0, 10 and then 5 to 15 calls a second.")
	for _, r := range rows {
		s := sim.Total(run.Provider, 0, run.Length, r.seconds)
		fmt.Fprintf(&b, " %s: %s.", r.name, summary(s))
	}
	b.WriteString("</desc>\n" + style)
	fmt.Fprintf(&b, `<rect class="b" width="%d" height="%d"/>`+"\n", width, height)
	legend(&b)
	for i, r := range rows {
		drawRow(&b, run, r, top+i*panel)
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}

func summary(s sim.Sum) string {
	return fmt.Sprintf("%.1f %% refused or failed, %.1f %% of the capacity used", 100*s.RefusedShare(), 100*s.Goodput())
}

// rows runs the limiters.
func rows(run sim.Run) ([]row, error) {
	ours, err := newRate(adaptive.RateConfig{}, 1)
	if err != nil {
		return nil, err
	}
	do := func(c sim.Client) []sim.Second {
		r := run
		r.Clients = []sim.Client{c}
		return r.Do()[0]
	}
	peer, err := readSeconds(failsafe)
	return []row{
		{"adaptive.Rate", do(ours)},
		{"AIMD, a decrease by half for each refusal", do(sim.NewPerEvent(0.1, 1000))},
		{"adaptivelimiter of failsafe-go, which watches latency", peer},
	}, err
}

// readSeconds reads what module peers has written.
func readSeconds(text string) (seconds []sim.Second, err error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read failsafe.csv: %w", err)
	}
	for _, record := range records[1:] {
		var s sim.Second
		for i, n := range []*int{&s.Sent, &s.Answered, &s.Refused, &s.Down} {
			if *n, err = strconv.Atoi(record[i]); err != nil {
				return nil, fmt.Errorf("read failsafe.csv: %w", err)
			}
		}
		seconds = append(seconds, s)
	}
	return seconds, nil
}

func drawRow(b *strings.Builder, run sim.Run, r row, y int) {
	bottom := y + plot
	s := sim.Total(run.Provider, 0, run.Length, r.seconds)
	fmt.Fprintf(b, `<text class="n" x="%d" y="%d">%s</text><text class="s e" x="%d" y="%d">%s</text>`+"\n",
		left, y-10, r.name, width-24, y-10, summary(s))
	fmt.Fprintf(b, `<path class="c" d="M%d %d`, left, bottom)
	for t := time.Duration(0); t < run.Length; t += point * time.Second {
		fmt.Fprintf(b, "L%s %s", x(t), height(bottom, int(run.Provider.Capacity(t)*point+0.5)))
		fmt.Fprintf(b, "H%s", x(t+point*time.Second))
	}
	fmt.Fprintf(b, "V%dZ\"/>\n", bottom)
	for calls := 0; calls <= mostCalls; calls += 10 {
		at := bottom - calls*perCall
		fmt.Fprintf(b, `<path class="l" d="M%d %dH%s"/><text class="s e" x="%d" y="%d">%d</text>`+"\n", left, at, x(run.Length), left-6, at+4, calls)
	}
	for minute := time.Duration(0); minute <= run.Length; minute += 5 * time.Minute {
		fmt.Fprintf(b, `<text class="s m" x="%s" y="%d">%d min</text>`+"\n", x(minute), bottom+15, int(minute.Minutes()))
	}
	line(b, "r", r.seconds, bottom, func(s sim.Second) int { return s.Refused + s.Down })
	line(b, "a", r.seconds, bottom, func(s sim.Second) int { return s.Answered })
}

// line draws means of some seconds.
func line(b *strings.Builder, class string, seconds []sim.Second, bottom int, of func(sim.Second) int) {
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	for i := 0; i+point <= len(seconds); i += point {
		sum := 0
		for _, s := range seconds[i : i+point] {
			sum += of(s)
		}
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(b, "%s%s %s", command, x(time.Duration(i)*time.Second+point*time.Second/2), height(bottom, sum))
	}
	b.WriteString("\"/>\n")
}

// x is where an instant lies, in tenths of a pixel.
func x(at time.Duration) string {
	return tenths(10*left + int(at*10*perMinute/time.Minute))
}

// height is where so many calls in a point lie, cut at the top.
func height(bottom, calls int) string {
	return tenths(10*bottom - 10*perCall*min(calls, mostCalls*point)/point)
}

func tenths(n int) string {
	return strings.TrimSuffix(fmt.Sprintf("%d.%d", n/10, n%10), ".0")
}

func legend(b *strings.Builder) {
	fmt.Fprintf(b, `<rect class="c" x="%d" y="13" width="18" height="12"/><text x="%d" y="24">what the provider allows</text>`+"\n", left, left+24)
	for i, l := range []struct{ class, text string }{{"a", "calls answered"}, {"r", "calls refused or failed"}} {
		at := left + 200 + 140*i
		fmt.Fprintf(b, `<path class="%s" d="M%d 19h18"/><text x="%d" y="24">%s</text>`+"\n", l.class, at, at+24, l.text)
	}
	fmt.Fprintf(b, `<text class="s e" x="%d" y="24">a second, means of 10 s, cut at %d</text>`+"\n", width-24, mostCalls)
}
