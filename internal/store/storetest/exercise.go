package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	{"a read waits for news", reading{
		wait: 3 * soon, at: 300 * time.Millisecond, does: appends, least: 250 * time.Millisecond, most: soon,
	}.run},
	{"a read without news ends", reading{most: soon / 2}.run},
	{"a read without news ends after its wait", reading{
		wait: 200 * time.Millisecond, least: 180 * time.Millisecond, most: 200*time.Millisecond + soon/2,
	}.run},
	{"a read gathers, and not for much longer", reading{
		wait: 6 * soon, gather: 200 * time.Millisecond, at: 50 * time.Millisecond, does: appends, most: soon,
	}.run},
	{"a read does not gather what is there", reading{wait: 6 * soon, gather: 6 * soon, does: appends, most: soon}.run},
	{"a context that has ended is obeyed", (*exercise).contexts},
	{"a read ends with its context", reading{
		wait: 6 * soon, context: 100 * time.Millisecond, fails: true, most: soon / 2,
	}.run},
	{"a read that gathers ends with its context", reading{
		wait: 6 * soon, gather: 6 * soon, context: 100 * time.Millisecond, fails: true, most: soon / 2,
	}.run},
	{"a read ends with its log", reading{
		wait: 6 * soon, at: 50 * time.Millisecond, does: closes, fails: true, most: soon,
	}.run},
	{"a read ends when the store is emptied", reading{
		wait: 3 * soon, at: 50 * time.Millisecond, does: empties, fails: true, most: 4 * soon,
	}.run},
	{"images are saved in order, at places of the log", (*exercise).saves},
	{"a save trims behind the image before", (*exercise).trims},
	{"an image is shown at once", (*exercise).shownAtOnce},
	{"an image may be large", (*exercise).largeImage},
	{"a new log takes the place of the old", (*exercise).replaced},
	{"an emptied store is noticed", (*exercise).emptied},
	{"a lost end is noticed", (*exercise).lostEnd},
	{"a lost end that grew again is noticed", (*exercise).grewAgain},
	{"an image ahead of the log", (*exercise).imageAhead},
	{"a closed log fails", (*exercise).closed},
	{"a witness sees deaths", (*exercise).deaths},
}

// soon is how long a test waits for what is to happen at once.
const soon = 10 * time.Second

// exercise is one test of a store.
type exercise struct {
	*testing.T
	place   Place
	process int64 // that opened the store last
}

// open opens the store for a new process.
func (e *exercise) open() store.Log {
	e.Helper()
	e.process++
	l, err := e.place.Store.Open(e.Context(), store.Options{Process: e.process, Report: func(err error) { e.Log(err) }})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { e.wantErr("close", l.Close(), nil) })
	return l
}

// begun opens a store of which the log has begun, with n entries of a process, which were appended
// one by one. It returns their places, behind the one where the log begins.
func (e *exercise) begun(n int64) (store.Log, []store.Position) {
	e.Helper()
	l, image := e.open(), newImage("start")
	e.wantErr("begin", l.Begin(e.Context(), 0, image), nil)
	places := []store.Position{image.At}
	for i := range n {
		places = append(places, e.append(l, places[i], entry(1, i)))
	}
	return l, places
}

// empty has the store lose everything.
func (e *exercise) empty() {
	e.Helper()
	if e.place.Empty == nil {
		e.Skip("it cannot be emptied")
	}
	e.place.Empty(e.T)
}

// loseEnd has the log lose its last entry.
func (e *exercise) loseEnd() {
	e.Helper()
	if e.place.LoseEnd == nil {
		e.Skip("it cannot lose its end")
	}
	e.place.LoseEnd(e.T)
}

// newImage returns an image with which a log can begin.
func newImage(text string) store.Image {
	return store.Image{At: store.Position{Log: rand.Uint64() | 1, Sum: rand.Uint64(), Seq: 40}, Bytes: []byte(text)}
}

// imageAt returns an image of a place.
func imageAt(at store.Position) store.Image {
	return store.Image{At: at, Bytes: fmt.Appendf(nil, "image of %d", at.Seq)}
}

// entry is the n-th of a process.
func entry(process, n int64) store.Entry {
	return store.Entry{Process: process, N: n, Expect: 1000 + n, Command: fmt.Appendf(nil, "command %d of %d", n, process)}
}

// append appends a batch, and returns where its last entry is.
func (e *exercise) append(l store.Log, after store.Position, batch ...store.Entry) store.Position {
	e.Helper()
	news, err := l.Append(e.Context(), after, batch)
	for err == nil && news.More {
		after = news.End(after)
		news, err = l.Read(e.Context(), after, 0, 0)
	}
	if err != nil {
		e.Fatal(err)
	}
	return news.End(after)
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
			if is.At.Log != after.Log || is.At.Seq <= after.Seq {
				e.Fatalf("behind %+v is %+v", after, is.At)
			}
			if after = is.At; is.Process != stranger {
				entries = append(entries, is)
			}
		}
		if !news.More {
			return entries
		}
	}
}

// wantErr fails the test unless an error is the one that is wanted, or none where that is nil.
func (e *exercise) wantErr(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantPlaces fails the test unless the entries behind a place are at the places that are wanted.
func (e *exercise) wantPlaces(l store.Log, after store.Position, want ...store.Position) {
	e.Helper()
	got := e.all(l, after)
	for i, is := range got {
		if i < len(want) && is.At != want[i] {
			e.Errorf("behind %d, entry %d is %+v, want it at %+v", after.Seq, i, is, want[i])
		}
	}
	if len(got) != len(want) {
		e.Errorf("behind %d there are %d entries, want %d", after.Seq, len(got), len(want))
	}
}

// wantSent fails the test unless the entries behind a place are those that were sent.
func (e *exercise) wantSent(l store.Log, after store.Position, sent []store.Entry) {
	e.Helper()
	got := e.all(l, after)
	if len(got) != len(sent) {
		e.Fatalf("read %d entries, want %d", len(got), len(sent))
	}
	for i, is := range got {
		if want := sent[i]; !isSent(is, want) {
			e.Fatalf("entry %d is number %d of process %d with %d bytes, expected at %d; want %d of %d with %d, at %d",
				i, is.N, is.Process, len(is.Command), is.Expect, want.N, want.Process, len(want.Command), want.Expect)
		}
	}
}

// isSent reports whether an entry is the one that was sent.
func isSent(is, sent store.Entry) bool {
	return is.Process == sent.Process && is.N == sent.N && is.Expect == sent.Expect && bytes.Equal(is.Command, sent.Command)
}

// isSame reports whether two entries are the same in all fields.
func isSame(a, b store.Entry) bool { return a.At == b.At && a.Stamp == b.Stamp && isSent(a, b) }

// wantNoPlace fails the test unless neither Read nor Append takes a place, and for the reason
// that is wanted. What Append then says it has not written must not be there.
func (e *exercise) wantNoPlace(l store.Log, at store.Position, want error) {
	e.Helper()
	_, err := l.Read(e.Context(), at, 0, 0)
	e.wantErr("read", err, want)
	lost := entry(stranger, rand.Int64())
	_, err = l.Append(e.Context(), at, []store.Entry{lost})
	e.wantErr("append", err, want)
	image, _ := l.Load(e.Context()) // behind that of no log nothing is read
	news, _ := l.Read(e.Context(), image.At, 0, 0)
	isThere := slices.ContainsFunc(news.Entries, func(is store.Entry) bool { return is.N == lost.N })
	if isThere && errors.Is(err, store.ErrNotWritten) {
		e.Error("what was not written is there")
	}
}

// wantImage fails the test unless the store has that image.
func (e *exercise) wantImage(l store.Log, want store.Image) {
	e.Helper()
	image, err := l.Load(e.Context())
	if err != nil || image.At != want.At || !bytes.Equal(image.Bytes, want.Bytes) {
		e.Errorf("the image is of %+v with %d bytes, error %v, want that of %+v with %d",
			image.At, len(image.Bytes), err, want.At, len(want.Bytes))
	}
}

// eventually waits until the error of a call is the one that is wanted.
func (e *exercise) eventually(what string, want error, call func() error) {
	e.Helper()
	var err error
	for began := time.Now(); time.Since(began) < soon; time.Sleep(20 * time.Millisecond) {
		if err = call(); errors.Is(err, want) {
			return
		}
	}
	e.Fatalf("%s: error %v, want %v", what, err, want)
}
