package storetest

import (
	"context"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) places() {
	l, after := e.begun()
	var batch []store.Entry
	for i := range int64(6) {
		batch = append(batch, entry(1, i))
	}
	e.append(l, after, batch[:4]...)
	e.append(l, after, batch[4:]...)
	all := e.all(l, after)
	for i, is := range all {
		if got := e.all(e.open(), is.At); !slices.EqualFunc(got, all[i+1:], same) {
			e.Errorf("behind entry %d there are %+v", i, got)
		}
	}
}

func (e *exercise) wrongPlaces() {
	l, after := e.begun()
	places := e.grow(l, after, 1, 3)
	for name, at := range map[string]store.Position{
		"the zero place":                  {},
		"another log":                     {Log: places[1].Log + 1, Sum: places[1].Sum, Seq: places[1].Seq},
		"another entry of its number":     {Log: places[1].Log, Sum: places[1].Sum + 1, Seq: places[1].Seq},
		"another last entry":              {Log: places[2].Log, Sum: places[2].Sum ^ 1<<63, Seq: places[2].Seq},
		"another entry before the first":  {Log: after.Log, Sum: after.Sum + 1, Seq: after.Seq},
		"an entry ahead of the log":       {Log: places[2].Log, Sum: places[2].Sum, Seq: places[2].Seq + 1000},
		"the sum of the entry before it":  {Log: places[1].Log, Sum: places[0].Sum, Seq: places[1].Seq},
		"the largest number, another sum": {Log: places[2].Log, Sum: 1, Seq: 1<<63 - 1},
	} {
		e.Log(name)
		e.wantNoPlace(l, at, store.ErrLost)
	}
	if got := e.all(l, after); len(got) != 3 || got[2].At != places[2] {
		e.Errorf("the log has %+v", got)
	}
}

func (e *exercise) waits() {
	l, after := e.begun()
	other, began := e.open(), time.Now()
	type result struct {
		news store.News
		err  error
		took time.Duration
	}
	results := make(chan result, 1)
	go func() {
		news, err := other.Read(e.Context(), after, 3*soon, 0)
		results <- result{news, err, time.Since(began)}
	}()
	time.Sleep(300 * time.Millisecond)
	at := e.append(l, after, entry(1, 1))
	r := <-results
	if r.err != nil || len(r.news.Entries) != 1 || r.news.Entries[0].At != at {
		e.Errorf("read %+v, error %v", r.news, r.err)
	}
	if r.took < 250*time.Millisecond || r.took > soon {
		e.Errorf("the read took %v, want 300 ms", r.took)
	}
}

func (e *exercise) ends() {
	l, after := e.begun()
	for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
		began := time.Now()
		news, err := l.Read(e.Context(), after, wait, 0)
		if err != nil || len(news.Entries) != 0 || news.More || news.Now == (store.Stamp{}) {
			e.Errorf("read %+v, error %v", news, err)
		}
		if took := time.Since(began); took < wait*9/10 || took > wait+soon/2 {
			e.Errorf("the read took %v, want %v", took, wait)
		}
	}
}

// gathers: news may be held back for gather, and not for much longer. News that are there already
// come at once.
func (e *exercise) gathers() {
	l, after := e.begun()
	other, began, done := e.open(), time.Now(), make(chan time.Duration, 1)
	go func() {
		if _, err := other.Read(e.Context(), after, 6*soon, 200*time.Millisecond); err != nil {
			e.Error(err)
		}
		done <- time.Since(began)
	}()
	time.Sleep(50 * time.Millisecond)
	e.append(l, after, entry(1, 1))
	if took := <-done; took > soon {
		e.Errorf("the news came after %v, want 250 ms at most", took)
	}
	began = time.Now()
	if news, err := other.Read(e.Context(), after, 6*soon, 6*soon); err != nil || len(news.Entries) != 1 {
		e.Errorf("read %+v, error %v", news, err)
	}
	if took := time.Since(began); took > soon {
		e.Errorf("old news came after %v", took)
	}
}

func (e *exercise) contexts() {
	l, after := e.begun()
	over, cancel := context.WithCancel(e.Context())
	cancel()
	if _, err := l.Append(over, after, []store.Entry{entry(1, 1)}); err == nil {
		e.Error("an append in a context that has ended has no error")
	}
	if _, err := l.Read(over, after, soon, 0); err == nil {
		e.Error("a read in a context that has ended has no error")
	}
	for _, gather := range []time.Duration{0, 6 * soon} {
		ctx, cancel := context.WithTimeout(e.Context(), 100*time.Millisecond)
		began := time.Now()
		at := e.append(l, after)
		_, err := l.Read(ctx, at, 6*soon, gather)
		cancel()
		if took := time.Since(began); err == nil || took > soon/2 {
			e.Errorf("a read in a context of 100 ms took %v, error %v", took, err)
		}
	}
}
