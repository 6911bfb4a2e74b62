package storetest

import (
	"cmp"
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// reading is a test of a Read behind the end of a log: how it waits, what happens meanwhile, and
// what becomes of it.
type reading struct {
	wait, gather time.Duration
	context      time.Duration // until its context ends; zero is never
	does         func(e *exercise, l, reader store.Log, after store.Position) (end store.Position)
	at           time.Duration // when that happens; zero is before the Read

	fails       bool
	least, most time.Duration // that it takes
}

// appends has another process append an entry.
func appends(e *exercise, l, _ store.Log, after store.Position) store.Position {
	return e.append(l, after, entry(1, 1))
}

func closes(e *exercise, _, reader store.Log, after store.Position) store.Position {
	e.wantErr("close", reader.Close(), nil)
	return after
}

func empties(e *exercise, _, _ store.Log, after store.Position) store.Position {
	e.empty()
	return after
}

func (r reading) run(e *exercise) {
	l, places := e.begun(0)
	reader, after := e.open(), places[0]
	end := after
	if r.does != nil && r.at == 0 {
		end = r.does(e, l, reader, after)
	}
	ctx, cancel := context.WithTimeout(e.Context(), cmp.Or(r.context, time.Hour))
	defer cancel()
	var news store.News
	var err error
	began, ended := time.Now(), make(chan time.Duration, 1)
	go func() {
		news, err = reader.Read(ctx, after, r.wait, r.gather)
		ended <- time.Since(began)
	}()
	if r.at > 0 {
		time.Sleep(r.at)
		end = r.does(e, l, reader, after)
	}
	if took := <-ended; took < r.least || took > r.most {
		e.Errorf("the read took %v, want %v to %v", took, r.least, r.most)
	}
	isHint := r.gather > 0 && r.at > 0 && len(news.Entries) == 0 && news.Now == (store.Stamp{})
	switch {
	case r.fails:
		if err == nil {
			e.Errorf("read %+v, without an error", news)
		}
	case err != nil || news.More:
		e.Errorf("read %+v, error %v", news, err)
	case isHint: // there are news, for which it is to ask again
	case news.End(after) != end || news.Now == (store.Stamp{}):
		e.Errorf("read %+v, want an end at %+v", news, end)
	}
}

func (e *exercise) contexts() {
	l, places := e.begun(0)
	over, cancel := context.WithCancel(e.Context())
	cancel()
	if _, err := l.Append(over, places[0], []store.Entry{entry(1, 1)}); err == nil {
		e.Error("an append in a context that has ended has no error")
	}
	if _, err := l.Read(over, places[0], soon, 0); err == nil {
		e.Error("a read in a context that has ended has no error")
	}
	e.wantPlaces(l, places[0])
}
