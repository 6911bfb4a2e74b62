package sharedlogtest

import (
	"maps"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// pools: the last event of each pool counts, for whoever comes later too. No reset forgets it, nor
// that the events are gone.
func (e *exercise) pools() {
	a, _ := e.open(1)
	p, odd := state.PoolName("p"), state.PoolName("\x00odd\x1f*")
	event := func(n int64, pool, text string) *sharedlog.Event {
		return &sharedlog.Event{Process: 1, N: n, Kind: sharedlog.Pool, Model: pool, Text: text}
	}
	check := func(when string, got, want map[string][]string) {
		e.t.Helper()
		if !maps.EqualFunc(got, want, slices.Equal) {
			e.t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	wants := func(when string, want map[string][]string) {
		e.t.Helper()
		check(when, e.image(a).Pools, want)
	}
	wants("at the beginning", nil)
	e.write(a, 0, event(1, p, state.PoolText([]string{"m"})), event(2, odd, state.PoolText(nil)),
		event(3, p, state.PoolText([]string{"*", "\x00", ""})))
	both := map[string][]string{p: {"*", "\x00", ""}, odd: {}}
	wants("after the events", both)
	e.write(a, 3, &sharedlog.Event{Process: 1, N: 4, Kind: sharedlog.Reset, Model: p}, &sharedlog.Event{Process: 1, N: 5, Kind: sharedlog.Reset})
	wants("after resets", both)
	passed := []*sharedlog.Event{{Seq: 1, Kind: sharedlog.Pool}, {Seq: 4, Kind: sharedlog.Reset, Model: p}}
	e.commit(e.begin(a, 5), &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 6)}, Passed: passed, Drops: [][2]int64{{1, 4}}})
	wants("after the events have gone", both)
	b, img := e.open(2)
	check("another is told", img.Pools, both)
	e.write(b, 6, &sharedlog.Event{Process: 2, N: 1, Kind: sharedlog.Pool, Model: p, Text: state.GonePoolText()})
	wants("after another has removed one", map[string][]string{odd: {}})
	step := e.begin(a, 6)
	defer step.Rollback()
	if news := step.News(); len(news.Events) != 1 || news.Events[0].Text != state.GonePoolText() {
		e.t.Errorf("the news are %+v", news)
	}
}
