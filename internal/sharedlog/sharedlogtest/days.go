package sharedlogtest

import (
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// fold brings days up to an event.
func fold(days map[string]state.DayUsage, e *sharedlog.Event) {
	switch {
	case e.Kind == sharedlog.Reset && e.Model == "":
		clear(days)
	case e.Kind == sharedlog.Reset:
		delete(days, e.Model)
	case e.HasDay:
		days[e.Model] = e.Day
	}
}

// folded checks that events never come without how far the days are folded.
func (e *exercise) folded() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	e.write(a, 0, use(1, 1), use(1, 2))
	passed := e.read(b, 0)
	for n := int64(3); n <= 5; n++ {
		batch := &sharedlog.Batch{Events: []*sharedlog.Event{use(1, n)}}
		if n == 4 {
			batch.Passed, batch.Drops = passed, [][2]int64{{1, 2}}
		}
		e.commit(e.begin(a, n-1), batch)
		want := int64(0)
		if n >= 4 {
			want = 2
		}
		read, err := b.Read(e.t.Context(), n-1)
		if err != nil || len(read.Events) != 1 || read.Folded != want {
			e.t.Errorf("the event at %d is read as %+v, %v, folded up to %d", n, read, err, want)
		}
		step := e.begin(b, n-1)
		if news := step.News(); len(news.Events) != 1 || news.Folded != want {
			e.t.Errorf("a step is told of the event at %d by %+v, folded up to %d", n, news, want)
		}
		step.Rollback()
	}
}
