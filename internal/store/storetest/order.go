package storetest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) newStore() {
	l := e.open()
	image, err := l.Load(e.Context())
	if err != nil || !image.IsZero() {
		e.Errorf("a new store has image %+v, error %v", image, err)
	}
	e.wantNoPlace(l, store.Position{}, store.ErrLost)
	e.wantNoPlace(l, store.Position{Log: 7, Sum: 8, Seq: 9}, store.ErrLost)
	e.wantErr("save", l.Save(e.Context(), newImage("x")), store.ErrLost)
}

func (e *exercise) fields() {
	l, after := e.begun()
	batch := []store.Entry{
		{Process: 1, N: 1, Expect: 5, Command: []byte("a")},
		{Process: 1<<63 - 1, N: 1<<63 - 1, Expect: 1<<63 - 1, Command: []byte{0, 255, 0}},
		{Process: 2, N: 2, Command: bytes.Repeat([]byte("long"), 1000)},
		{Process: 2, N: 3, Command: []byte{}},
		{Process: 2, N: -4, Expect: -6, Command: []byte("a")},
	}
	e.append(l, after, batch...)
	e.append(l, after, entry(3, 1))
	batch = append(batch, entry(3, 1))
	for _, reader := range []store.Log{l, e.open()} {
		got := e.all(reader, after)
		if len(got) != len(batch) {
			e.Fatalf("read %d entries, want %d", len(got), len(batch))
		}
		seq := after.Seq
		for i, is := range got {
			if want := batch[i]; is.Process != want.Process || is.N != want.N || is.Expect != want.Expect ||
				!bytes.Equal(is.Command, want.Command) {
				e.Errorf("entry %d is %+v, want %+v", i, is, want)
			}
			if is.At.Log != after.Log || is.At.Seq <= seq {
				e.Errorf("entry %d has place %+v behind %d", i, is.At, seq)
			}
			seq = is.At.Seq
		}
	}
}

// oneOrder has processes append at the same time, also in batches, each behind what it has heard.
func (e *exercise) oneOrder() {
	const processes, batches, size = 5, 20, 3
	_, after := e.begun()
	var group sync.WaitGroup
	for range processes {
		l, process, at := e.open(), e.process, after
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
	first := e.all(e.open(), after)
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
	if second := e.all(e.open(), after); !slices.EqualFunc(first, second, same) {
		e.Error("two logs see two orders")
	}
}

// same reports whether two entries are the same in all fields.
func same(a, b store.Entry) bool {
	return a.At == b.At && a.Stamp == b.Stamp && a.Process == b.Process && a.N == b.N && a.Expect == b.Expect &&
		bytes.Equal(a.Command, b.Command)
}

func (e *exercise) before() {
	l, after := e.begun()
	other := e.open()
	first := e.append(other, after, entry(2, 1), entry(2, 2))
	end := e.append(l, after, entry(1, 1))
	if got := e.all(l, after); len(got) != 3 || got[2].Process != 1 || got[2].At != end {
		e.Errorf("the log has %+v", got)
	}
	news, err := l.Append(e.Context(), first, []store.Entry{entry(1, 2)})
	if err != nil || len(news.Entries) == 0 || news.Entries[0].At != end {
		e.Errorf("an append that has heard of two tells %+v, error %v", news, err)
	}
}

func (e *exercise) emptyBatch() {
	l, after := e.begun()
	at := e.append(l, after, entry(1, 1))
	began := time.Now()
	news, err := e.open().Append(e.Context(), after, nil)
	if err != nil || len(news.Entries) != 1 || news.Entries[0].At != at {
		e.Errorf("an append of nothing tells %+v, error %v", news, err)
	}
	if news, err = l.Append(e.Context(), at, nil); err != nil || len(news.Entries) != 0 || news.Now == (store.Stamp{}) {
		e.Errorf("an append of nothing at the end tells %+v, error %v", news, err)
	}
	if took := time.Since(began); took > soon/2 {
		e.Errorf("two appends of nothing took %v", took)
	}
}

func (e *exercise) pages() {
	const n = 3000
	l, after := e.begun()
	other, at := e.open(), after
	var batch []store.Entry
	for i := range int64(n) {
		batch = append(batch, store.Entry{Process: 1, N: i, Command: make([]byte, 700)})
		if len(batch) == 250 {
			at = e.append(l, at, batch...)
			batch = nil
		}
	}
	got := e.all(other, after)
	for i, is := range got {
		if is.N != int64(i) {
			e.Fatalf("entry %d is number %d", i, is.N)
		}
	}
	if len(got) != n {
		e.Errorf("read %d entries, want %d", len(got), n)
	}
	if end := e.append(other, after, entry(2, 1)); end.Seq <= at.Seq {
		e.Errorf("an append from the beginning ends at %+v, want behind %+v", end, at)
	}
}

func (e *exercise) largeBatch() {
	l, after := e.begun()
	var batch []store.Entry
	for i := range int64(5000) {
		batch = append(batch, entry(1, i))
	}
	batch = append(batch, store.Entry{Process: 1, N: 5000, Command: bytes.Repeat([]byte("x"), 1<<20)})
	e.append(l, after, batch...)
	got := e.all(e.open(), after)
	for i := range got {
		got[i].At, got[i].Stamp = store.Position{}, store.Stamp{}
	}
	if !slices.EqualFunc(got, batch, same) {
		e.Errorf("read %d entries that are not the %d of the batch", len(got), len(batch))
	}
}

func (e *exercise) stamps() {
	l, after := e.begun()
	other, began := e.open(), time.Now()
	at := e.append(l, after, entry(1, 1))
	time.Sleep(30 * time.Millisecond)
	at = e.append(other, at, entry(2, 1))
	news, err := l.Read(e.Context(), after, 0, 0)
	if err != nil {
		e.Fatal(err)
	}
	if news, err = l.Read(e.Context(), at, 0, 0); err != nil {
		e.Fatal(err)
	}
	got := e.all(l, after)
	last := got[0].Stamp
	if wall := time.Unix(0, last.Wall); wall.Before(began.Add(-time.Minute)) || wall.After(time.Now().Add(time.Minute)) {
		e.Errorf("an entry of %v is stamped %v", began, wall)
	}
	apart := got[1].Stamp.Wall - last.Wall
	if last.Instant != 0 {
		apart = got[1].Stamp.Instant - last.Instant
	}
	if apart < int64(29*time.Millisecond) || apart > int64(soon) {
		e.Errorf("entries 30 ms apart have stamps %v apart", time.Duration(apart))
	}
	if now := news.Now; now.Wall < got[1].Stamp.Wall || now.Instant < got[1].Stamp.Instant {
		e.Errorf("now is %+v, before the last entry of %+v", now, got[1].Stamp)
	}
}
