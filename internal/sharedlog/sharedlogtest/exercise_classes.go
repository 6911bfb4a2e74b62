package sharedlogtest

import (
	"maps"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// classes: a log keeps the last that was said of the classes, and of the line of each model,
// whatever happens to the events; a line of which nothing is said any more is forgotten. No reset
// forgets them.
func (e *exercise) classes() {
	a, _ := e.open(1)
	first := state.ClassesText(map[string]state.Class{"a": {Weight: 3}})
	last := state.ClassesText(map[string]state.Class{"\x00b": {Ahead: true, MaxQueue: 5}, "": {ReservePercent: 0}})
	line := state.LineText(state.Line{Of: 1 << 63, Virtual: [2]int64{5, 1 << 61}, Classes: map[string]state.LineClass{"a": {Start: 7}}})
	event := func(n int64, model, text string) *sharedlog.Event {
		return &sharedlog.Event{Process: 1, N: n, Kind: sharedlog.Classes, Model: model, Text: text}
	}
	wants := func(when string, want map[string]string) {
		e.t.Helper()
		if img := e.image(a); !maps.Equal(img.Classes, want) {
			e.t.Errorf("%s: %q, want %q", when, img.Classes, want)
		}
	}
	wants("at the beginning", map[string]string{})
	e.write(a, 0, event(1, "", first), event(2, "m", line), event(3, "", last), event(4, "\x00odd", line))
	all := map[string]string{"": last, "m": line, "\x00odd": line}
	wants("after the events", all)
	e.write(a, 4, &sharedlog.Event{Process: 1, N: 5, Kind: sharedlog.Reset, Model: "m"}, &sharedlog.Event{Process: 1, N: 6, Kind: sharedlog.Reset})
	passed := e.image(a).Events
	e.commit(e.begin(a, 6), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 7)}, Passed: passed, Drops: [][2]int64{{1, 6}}})
	wants("after the events have gone", all)
	if _, img := e.open(2); !maps.Equal(img.Classes, all) {
		e.t.Errorf("another is told %q", img.Classes)
	}
	e.write(a, 7, event(8, "m", ""), event(9, "none", ""))
	delete(all, "m")
	wants("after a line began anew", all)
}
