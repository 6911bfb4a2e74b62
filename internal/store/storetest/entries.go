package storetest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) fields() {
	l, places := e.begun(0)
	batch := []store.Entry{
		{Process: 1, N: 1, Expect: 5, Command: []byte("a")},
		{Process: 1<<63 - 1, N: 1<<63 - 1, Expect: 1<<63 - 1, Command: []byte{0, 255, 0}},
		{Process: 2, N: 2, Command: bytes.Repeat([]byte("long"), 1000)},
		{Process: 2, N: 3, Command: []byte{}},
		{Process: 2, N: -4, Expect: -6, Command: []byte("a")},
	}
	e.append(l, places[0], batch...)
	e.append(l, places[0], entry(3, 1))
	batch = append(batch, entry(3, 1))
	e.wantSent(l, places[0], batch)
	e.wantSent(e.open(), places[0], batch)
}

// oneOrder has processes append at the same time, also in batches, each behind what it has heard.
func (e *exercise) oneOrder() {
	const processes, batches, size = 5, 20, 3
	_, places := e.begun(0)
	var group sync.WaitGroup
	for range processes {
		l, process, at := e.open(), e.process, places[0]
		group.Go(func() {
			for b := range int64(batches) {
				var batch []store.Entry
				for i := range int64(size) {
					batch = append(batch, entry(process, b*size+i))
				}
				news, err := l.Append(e.Context(), at, batch)
				if err != nil {
					e.Error(err)
					return
				}
				at = news.End(at)
			}
		})
	}
	group.Wait()
	first := e.all(e.open(), places[0])
	if len(first) != processes*batches*size {
		e.Fatalf("there are %d entries, want %d", len(first), processes*batches*size)
	}
	next := make(map[int64]int64)
	for _, is := range first {
		if is.N != next[is.Process] {
			e.Fatalf("entry %d of process %d comes where %d should", is.N, is.Process, next[is.Process])
		}
		next[is.Process]++
	}
	if second := e.all(e.open(), places[0]); !slices.EqualFunc(first, second, isSame) {
		e.Error("two logs see two orders")
	}
}

func (e *exercise) before() {
	l, places := e.begun(0)
	other := e.open()
	first := e.append(other, places[0], entry(2, 1), entry(2, 2))
	end := e.append(l, places[0], entry(1, 1))
	e.wantSent(l, places[0], []store.Entry{entry(2, 1), entry(2, 2), entry(1, 1)})
	e.wantPlaces(l, first, end)
	news, err := l.Append(e.Context(), first, []store.Entry{entry(1, 2)})
	if err != nil || len(news.Entries) == 0 || news.Entries[0].At != end {
		e.Errorf("an append that has heard of two tells %+v, error %v", news, err)
	}
}

func (e *exercise) emptyBatch() {
	l, places := e.begun(1)
	began := time.Now()
	for i, after := range places {
		news, err := l.Append(e.Context(), after, nil)
		if err != nil || len(news.Entries) != 1-i || news.End(after) != places[1] || news.Now == (store.Stamp{}) {
			e.Errorf("an append of nothing behind %d entries tells %+v, error %v", i, news, err)
		}
	}
	if took := time.Since(began); took > soon/2 {
		e.Errorf("two appends of nothing took %v", took)
	}
}

func (e *exercise) pages() {
	l, places := e.begun(0)
	other, at := e.open(), places[0]
	var batch []store.Entry
	for i := range int64(3000) {
		batch = append(batch, store.Entry{Process: 1, N: i, Command: make([]byte, 700)})
	}
	for part := range slices.Chunk(batch, 250) {
		at = e.append(l, at, part...)
	}
	e.wantSent(other, places[0], batch)
	if end := e.append(other, places[0], entry(2, 1)); end.Seq <= at.Seq {
		e.Errorf("an append from the beginning ends at %+v, want behind %+v", end, at)
	}
}

func (e *exercise) largeBatch() {
	l, places := e.begun(0)
	var batch []store.Entry
	for i := range int64(5000) {
		batch = append(batch, entry(1, i))
	}
	batch = append(batch, store.Entry{Process: 1, N: 5000, Command: bytes.Repeat([]byte("x"), 1<<20)})
	e.append(l, places[0], batch...)
	e.wantSent(e.open(), places[0], batch)
}

func (e *exercise) places() {
	l, places := e.begun(0)
	e.append(l, places[0], entry(1, 0), entry(1, 1), entry(1, 2), entry(1, 3))
	e.append(l, places[0], entry(1, 4), entry(1, 5))
	all := e.all(l, places[0])
	for i, is := range all {
		if got := e.all(e.open(), is.At); !slices.EqualFunc(got, all[i+1:], isSame) {
			e.Errorf("behind entry %d there are %+v", i, got)
		}
	}
}

func (e *exercise) wrongPlaces() {
	l, places := e.begun(3)
	log := places[0].Log
	for name, at := range map[string]store.Position{
		"the zero place":                  {},
		"another log":                     {Log: log + 1, Sum: places[2].Sum, Seq: places[2].Seq},
		"another entry of its number":     {Log: log, Sum: places[2].Sum + 1, Seq: places[2].Seq},
		"another last entry":              {Log: log, Sum: places[3].Sum ^ 1<<63, Seq: places[3].Seq},
		"another entry before the first":  {Log: log, Sum: places[0].Sum + 1, Seq: places[0].Seq},
		"an entry ahead of the log":       {Log: log, Sum: places[3].Sum, Seq: places[3].Seq + 1000},
		"the sum of the entry before it":  {Log: log, Sum: places[1].Sum, Seq: places[2].Seq},
		"the largest number, another sum": {Log: log, Sum: 1, Seq: 1<<63 - 1},
	} {
		e.Log(name)
		e.wantNoPlace(l, at, store.ErrLost)
	}
	e.wantPlaces(l, places[0], places[1:]...)
}

func (e *exercise) stamps() {
	l, places := e.begun(0)
	other, began := e.open(), time.Now()
	at := e.append(l, places[0], entry(1, 1))
	time.Sleep(30 * time.Millisecond)
	at = e.append(other, at, entry(2, 1))
	news, err := l.Read(e.Context(), at, 0, 0)
	if err != nil {
		e.Fatal(err)
	}
	all := e.all(l, places[0])
	first, last := all[0].Stamp, all[1].Stamp
	if wall := time.Unix(0, first.Wall); wall.Before(began.Add(-time.Minute)) || wall.After(time.Now().Add(time.Minute)) {
		e.Errorf("an entry of %v is stamped %v", began, wall)
	}
	apart := last.Wall - first.Wall
	if first.Instant != 0 {
		apart = last.Instant - first.Instant
	}
	if apart < int64(29*time.Millisecond) || apart > int64(soon) {
		e.Errorf("entries 30 ms apart have stamps %v apart", time.Duration(apart))
	}
	if news.Now.Wall < last.Wall || news.Now.Instant < last.Instant {
		e.Errorf("now is %+v, before the last entry of %+v", news.Now, last)
	}
}
