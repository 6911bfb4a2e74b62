package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Place is an empty store, and what a test can do to it. What the store cannot suffer is nil.
type Place struct {
	Store store.Store
	// Empty has the store lose everything, as if somebody had removed it.
	Empty func(t *testing.T)
	// LoseEnd has the log lose its last entry, if it was appended alone.
	LoseEnd func(t *testing.T)
	// Kill ends a process without a word, whose logs are witnesses.
	Kill func(t *testing.T, process int64)
}

// Exercise tests a store. open makes a new one, in a bubble of testing/synctest, where the logs
// must work.
func Exercise(t *testing.T, open func(t *testing.T) Place) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(&exercise{T: t, place: open(t)}) })
		})
	}
}

// ExerciseLive is Exercise for a store that works by sockets, which no bubble has. Some of the
// tests take seconds.
func ExerciseLive(t *testing.T, open func(t *testing.T) Place) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(&exercise{T: t, place: open(t)}) })
	}
}

var tests = []struct {
	name string
	run  func(e *exercise)
}{
	{"a new store has no log", (*exercise).newStore},
	{"a log begins with its image", (*exercise).beginning},
	{"one of many begins a log", (*exercise).firstBegin},
	{"a begin that is repeated does nothing", (*exercise).beginAgain},
	{"entries keep their order and their fields", (*exercise).fields},
	{"all logs see one order", (*exercise).oneOrder},
	{"an append tells what came before", (*exercise).before},
	{"an empty batch reads", (*exercise).emptyBatch},
	{"news come in pages", (*exercise).pages},
	{"a batch may be large", (*exercise).largeBatch},
	{"each entry is a place to read from", (*exercise).places},
	{"other places are not", (*exercise).wrongPlaces},
	{"stamps count on", (*exercise).stamps},
	{"a read waits for news", (*exercise).waits},
	{"a read without news ends", (*exercise).ends},
	{"a read gathers", (*exercise).gathers},
	{"a context that ends is obeyed", (*exercise).contexts},
	{"the newest image is loaded", (*exercise).newestImage},
	{"older images are refused", (*exercise).olderImage},
	{"a save trims behind the image before", (*exercise).trims},
	{"an image needs its place", (*exercise).imagePlace},
	{"an image is shown at once", (*exercise).shownAtOnce},
	{"an image may be large", (*exercise).largeImage},
	{"a new log takes the place of the old", (*exercise).replaced},
	{"an emptied store is noticed", (*exercise).emptied},
	{"a lost end is noticed", (*exercise).lostEnd},
	{"a lost end that grew again is noticed", (*exercise).grewAgain},
	{"an image ahead of the log", (*exercise).imageAhead},
	{"a closed log fails", (*exercise).closes},
	{"a witness sees deaths", (*exercise).deaths},
}

// soon is how long a test waits for what is to happen at once.
const soon = 10 * time.Second

// exercise is one test of a store.
type exercise struct {
	*testing.T
	place   Place
	process int64
}

// open opens the store for a new process.
func (e *exercise) open() store.Log {
	e.Helper()
	e.process++
	l, err := e.place.Store.Open(e.Context(), store.Options{Process: e.process, Report: func(err error) { e.Log(err) }})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		if err := l.Close(); err != nil {
			e.Error(err)
		}
	})
	return l
}

// begun opens a store of which the log has begun, and returns where.
func (e *exercise) begun() (store.Log, store.Position) {
	e.Helper()
	l := e.open()
	image := newImage("start")
	if err := l.Begin(e.Context(), 0, image); err != nil {
		e.Fatal(err)
	}
	return l, image.At
}

// newImage returns an image with which a log can begin.
func newImage(text string) store.Image {
	return store.Image{At: store.Position{Log: rand.Uint64() | 1, Sum: rand.Uint64(), Seq: 40}, Bytes: []byte(text)}
}

// entry is the n-th of a process.
func entry(process, n int64) store.Entry {
	return store.Entry{Process: process, N: n, Expect: 1000 + n, Command: fmt.Appendf(nil, "command %d of %d", n, process)}
}

// append appends a batch, and returns where its last entry is.
func (e *exercise) append(l store.Log, after store.Position, batch ...store.Entry) store.Position {
	e.Helper()
	news, err := l.Append(e.Context(), after, batch)
	if err != nil {
		e.Fatal(err)
	}
	for news.More {
		after = news.End(after)
		if news, err = l.Read(e.Context(), after, 0, 0); err != nil {
			e.Fatal(err)
		}
	}
	return news.End(after)
}

// grow appends n entries of a process, one by one, and returns their places.
func (e *exercise) grow(l store.Log, after store.Position, process, n int64) (places []store.Position) {
	e.Helper()
	for i := range n {
		after = e.append(l, after, entry(process, i))
		places = append(places, after)
	}
	return places
}

// stranger is a process that appends at wrong places only. Whether that is written is open.
const stranger = 99

// all reads everything behind a place, but for what a stranger has written.
func (e *exercise) all(l store.Log, after store.Position) (entries []store.Entry) {
	e.Helper()
	for {
		news, err := l.Read(e.Context(), after, 0, 0)
		if err != nil {
			e.Fatal(err)
		}
		if news.More && len(news.Entries) == 0 {
			e.Fatal("a page is empty, and there are more")
		}
		for _, is := range news.Entries {
			if is.Process != stranger {
				entries = append(entries, is)
			}
		}
		if after = news.End(after); !news.More {
			return entries
		}
	}
}

// wantErr fails the test unless an error is the one that is wanted.
func (e *exercise) wantErr(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantNoPlace fails the test unless neither Read nor Append takes a place, and for the reason
// that is wanted. What Append then says it has not written must not be there.
func (e *exercise) wantNoPlace(l store.Log, at store.Position, want error) {
	e.Helper()
	_, err := l.Read(e.Context(), at, 0, 0)
	e.wantErr("read", err, want)
	lost := entry(stranger, rand.Int64())
	_, err = l.Append(e.Context(), at, []store.Entry{lost})
	e.wantErr("append", err, want)
	if !errors.Is(err, store.ErrNotWritten) {
		return
	}
	image, err := l.Load(e.Context())
	if err != nil || image.IsZero() {
		return
	}
	entries, err := l.Read(e.Context(), image.At, 0, 0)
	for _, is := range entries.Entries {
		if err == nil && is.N == lost.N {
			e.Error("what was not written is there")
		}
	}
}

// eventually waits until an error is the one that is wanted.
func (e *exercise) eventually(what string, want error, call func(ctx context.Context) error) {
	e.Helper()
	var err error
	for began := time.Now(); time.Since(began) < soon; time.Sleep(20 * time.Millisecond) {
		if err = call(e.Context()); errors.Is(err, want) || want == nil && err == nil {
			return
		}
	}
	e.Fatalf("%s: error %v, want %v", what, err, want)
}
