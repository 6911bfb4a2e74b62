package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) beginning() {
	l := e.open()
	image := newImage("an image")
	if err := l.Begin(e.Context(), 0, image); err != nil {
		e.Fatal(err)
	}
	e.wantImage(l, image)
	e.wantImage(e.open(), image)
	if got := e.all(e.open(), image.At); len(got) != 0 {
		e.Errorf("a new log has %+v", got)
	}
	if at := e.append(l, image.At, entry(1, 1)); at.Log != image.At.Log || at.Seq <= image.At.Seq {
		e.Errorf("the first entry behind %+v is %+v", image.At, at)
	}
}

func (e *exercise) firstBegin() {
	var group sync.WaitGroup
	var first atomic.Int64
	var logs []store.Log
	var images []store.Image
	for range 6 {
		logs, images = append(logs, e.open()), append(images, newImage("first"))
	}
	for i, l := range logs {
		group.Go(func() {
			switch err := l.Begin(e.Context(), 0, images[i]); {
			case err == nil:
				first.Add(1)
				e.wantImage(l, images[i])
			case !errors.Is(err, store.ErrLost):
				e.Error(err)
			}
		})
	}
	group.Wait()
	if n := first.Load(); n != 1 {
		e.Errorf("%d were first", n)
	}
}

func (e *exercise) beginAgain() {
	l := e.open()
	image := newImage("start")
	for range 2 {
		if err := l.Begin(e.Context(), 0, image); err != nil {
			e.Fatal(err)
		}
	}
	at := e.append(l, image.At, entry(1, 1))
	if err := l.Begin(e.Context(), 0, image); err != nil {
		e.Fatal(err)
	}
	if got := e.all(l, image.At); len(got) != 1 || got[0].At != at {
		e.Errorf("after a begin that came twice the log has %+v", got)
	}
	e.wantErr("begin", l.Begin(e.Context(), 0, newImage("other")), store.ErrLost)
	e.wantErr("begin", l.Begin(e.Context(), image.At.Log+1, newImage("other")), store.ErrLost)
	e.wantImage(l, image)
}

func (e *exercise) replaced() {
	l, after := e.begun()
	places := e.grow(l, after, 1, 4)
	e.save(l, places[1])
	image := newImage("of a survivor")
	image.At.Seq = 20 // it knew less
	if err := e.open().Begin(e.Context(), after.Log, image); err != nil {
		e.Fatal(err)
	}
	for _, reader := range []store.Log{l, e.open()} {
		e.wantImage(reader, image)
		for _, at := range append(places, after) {
			e.wantNoPlace(reader, at, store.ErrLost)
		}
	}
	e.wantErr("save", l.Save(e.Context(), store.Image{At: places[3], Bytes: []byte("old")}), store.ErrLost)
	e.wantErr("begin", l.Begin(e.Context(), after.Log, newImage("second")), store.ErrLost)
	e.wantImage(l, image)
	if got := e.all(l, image.At); len(got) != 0 {
		e.Errorf("the new log has %+v", got)
	}
	if at := e.append(l, image.At, entry(1, 9)); at.Seq <= 20 {
		e.Errorf("the first entry behind 20 is %d", at.Seq)
	}
}

func (e *exercise) emptied() {
	if e.place.Empty == nil {
		e.Skip("it cannot be emptied")
	}
	l, after := e.begun()
	other := e.open()
	places := e.grow(l, after, 1, 3)
	waiting := make(chan error, 1)
	go func() {
		_, err := other.Read(e.Context(), places[2], 3*soon, 0)
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond)
	e.place.Empty(e.T)
	e.eventually("read", store.ErrLost, func(ctx context.Context) error {
		_, err := l.Read(ctx, places[2], 0, 0)
		return err
	})
	if err := <-waiting; err == nil {
		e.Error("a read that waited has no error")
	}
	e.wantNoPlace(l, after, store.ErrLost)
	image, err := e.open().Load(e.Context())
	if !image.IsZero() || err != nil && !errors.Is(err, store.ErrLost) {
		e.Errorf("an emptied store has image %+v, error %v", image, err)
	}
	image = newImage("of a survivor")
	e.wantErr("begin", other.Begin(e.Context(), after.Log, newImage("x")), store.ErrLost)
	e.eventually("begin", nil, func(ctx context.Context) error { return other.Begin(ctx, 0, image) })
	e.wantErr("begin", l.Begin(e.Context(), 0, newImage("x")), store.ErrLost)
	e.wantImage(l, image)
	e.wantNoPlace(l, places[2], store.ErrLost)
	e.append(l, image.At, entry(1, 4))
}

// lostEnd: who heard of the entry that was lost cannot go on, and who did not can.
func (e *exercise) lostEnd() {
	if e.place.LoseEnd == nil {
		e.Skip("it cannot lose its end")
	}
	l, after := e.begun()
	places := e.grow(l, after, 1, 4)
	e.place.LoseEnd(e.T)
	e.wantNoPlace(l, places[3], store.ErrLost)
	for i, at := range places[:3] {
		e.Log(i)
		if _, err := l.Read(e.Context(), at, 0, 0); err != nil {
			e.Error(err)
		}
	}
	e.wantErr("save", l.Save(e.Context(), store.Image{At: places[3], Bytes: []byte("lost")}), store.ErrLost)
}

// grewAgain sends the very entry again that was lost.
func (e *exercise) grewAgain() {
	if e.place.LoseEnd == nil {
		e.Skip("it cannot lose its end")
	}
	l, after := e.begun()
	places := e.grow(l, after, 1, 4)
	e.place.LoseEnd(e.T)
	time.Sleep(time.Millisecond)
	for range 3 {
		e.append(e.open(), places[2], entry(1, 3))
	}
	e.wantNoPlace(l, places[3], store.ErrLost)
}

// imageAhead: an image may outlast the entries that it has. It is loaded, but its place is none,
// and a later image does not make it one.
func (e *exercise) imageAhead() {
	if e.place.LoseEnd == nil {
		e.Skip("it cannot lose its end")
	}
	l, after := e.begun()
	places := e.grow(l, after, 1, 4)
	e.save(l, places[1])
	ahead := e.save(l, places[3])
	e.place.LoseEnd(e.T)
	e.wantImage(l, ahead)
	e.wantNoPlace(l, ahead.At, store.ErrLost)
	at := e.append(e.open(), places[2], entry(2, 1))
	image := e.save(l, at)
	e.wantImage(l, image)
	e.wantNoPlace(l, ahead.At, store.ErrLost)
	if got := e.all(l, places[2]); len(got) == 0 || got[0].At != at {
		e.Errorf("behind the last entry that was not lost there are %+v", got)
	}
}
