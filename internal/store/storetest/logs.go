package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) newStore() {
	l := e.open()
	e.wantImage(l, store.Image{})
	e.wantNoPlace(l, store.Position{}, store.ErrLost)
	e.wantNoPlace(l, store.Position{Log: 7, Sum: 8, Seq: 9}, store.ErrLost)
	e.wantErr("save", l.Save(e.Context(), newImage("x")), store.ErrLost)
}

func (e *exercise) beginning() {
	l, image := e.open(), newImage("an image")
	e.wantErr("begin", l.Begin(e.Context(), 0, image), nil)
	e.wantImage(l, image)
	e.wantImage(e.open(), image)
	e.wantPlaces(e.open(), image.At)
	e.wantPlaces(l, image.At, e.append(l, image.At, entry(1, 1)))
}

func (e *exercise) firstBegin() {
	var group sync.WaitGroup
	var first atomic.Int64
	var logs []store.Log
	for range 6 {
		logs = append(logs, e.open())
	}
	for _, l := range logs {
		group.Go(func() {
			image := newImage("first")
			switch err := l.Begin(e.Context(), 0, image); {
			case err == nil:
				first.Add(1)
				e.wantImage(l, image)
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
	l, image := e.open(), newImage("start")
	for range 2 {
		e.wantErr("begin", l.Begin(e.Context(), 0, image), nil)
	}
	at := e.append(l, image.At, entry(1, 1))
	e.wantErr("begin", l.Begin(e.Context(), 0, image), nil)
	e.wantPlaces(l, image.At, at)
	e.wantErr("begin", l.Begin(e.Context(), 0, newImage("other")), store.ErrLost)
	e.wantErr("begin", l.Begin(e.Context(), image.At.Log+1, newImage("other")), store.ErrLost)
	e.wantImage(l, image)
}

func (e *exercise) replaced() {
	l, places := e.begun(4)
	log := places[0].Log
	e.save(l, imageAt(places[2]))
	image := newImage("of a survivor")
	image.At.Seq = 20 // it knew less
	e.wantErr("begin", e.open().Begin(e.Context(), log, image), nil)
	for _, reader := range []store.Log{l, e.open()} {
		e.wantImage(reader, image)
		for _, at := range places {
			e.wantNoPlace(reader, at, store.ErrLost)
		}
	}
	e.wantErr("save", l.Save(e.Context(), imageAt(places[4])), store.ErrLost)
	e.wantErr("begin", l.Begin(e.Context(), log, newImage("second")), store.ErrLost)
	e.wantImage(l, image)
	e.wantPlaces(l, image.At)
	e.wantPlaces(l, image.At, e.append(l, image.At, entry(1, 9)))
}

func (e *exercise) emptied() {
	l, places := e.begun(3)
	other, log := e.open(), places[0].Log
	e.empty()
	e.eventually("read", store.ErrLost, func() error {
		_, err := l.Read(e.Context(), places[3], 0, 0)
		return err
	})
	e.wantNoPlace(l, places[0], store.ErrLost)
	image, err := e.open().Load(e.Context())
	if !image.IsZero() || err != nil && !errors.Is(err, store.ErrLost) {
		e.Errorf("an emptied store has image %+v, error %v", image, err)
	}
	image = newImage("of a survivor")
	e.wantErr("begin", other.Begin(e.Context(), log, newImage("x")), store.ErrLost)
	e.eventually("begin", nil, func() error { return other.Begin(e.Context(), 0, image) })
	e.wantErr("begin", l.Begin(e.Context(), 0, newImage("x")), store.ErrLost)
	e.wantImage(l, image)
	e.wantNoPlace(l, places[3], store.ErrLost)
	e.append(l, image.At, entry(1, 4))
}

// lostEnd: who heard of the entry that was lost cannot go on, and who did not can.
func (e *exercise) lostEnd() {
	l, places := e.begun(4)
	e.loseEnd()
	e.wantNoPlace(l, places[4], store.ErrLost)
	for i := range 4 {
		e.wantPlaces(l, places[i], places[i+1:4]...)
	}
	e.wantErr("save", l.Save(e.Context(), imageAt(places[4])), store.ErrLost)
}

// grewAgain sends the very entry again that was lost, when the store's clock shows another time.
func (e *exercise) grewAgain() {
	l, places := e.begun(4)
	e.loseEnd()
	time.Sleep(time.Millisecond)
	for range 3 {
		e.append(e.open(), places[3], entry(1, 3))
	}
	e.wantNoPlace(l, places[4], store.ErrLost)
}

// imageAhead: an image may outlast the entries that it has. It is loaded, but its place is none,
// and a later image does not make it one.
func (e *exercise) imageAhead() {
	l, places := e.begun(4)
	ahead := imageAt(places[4])
	e.save(l, imageAt(places[2]))
	e.save(l, ahead)
	e.loseEnd()
	e.wantImage(l, ahead)
	e.wantNoPlace(l, ahead.At, store.ErrLost)
	at := e.append(e.open(), places[3], entry(2, 1))
	e.save(l, imageAt(at))
	e.wantImage(l, imageAt(at))
	e.wantNoPlace(l, ahead.At, store.ErrLost)
	e.wantPlaces(l, places[3], at)
}

func (e *exercise) closed() {
	_, places := e.begun(0)
	l, at := e.open(), places[0]
	for range 2 {
		e.wantErr("close", l.Close(), nil)
	}
	_, appendErr := l.Append(e.Context(), at, []store.Entry{entry(1, 1)})
	_, readErr := l.Read(e.Context(), at, 0, 0)
	_, loadErr := l.Load(e.Context())
	saveErr := l.Save(e.Context(), imageAt(at))
	beginErr := l.Begin(e.Context(), at.Log, newImage("x"))
	for i, err := range []error{appendErr, readErr, loadErr, saveErr, beginErr} {
		if err == nil {
			e.Errorf("method %d of a closed log has no error", i)
		}
	}
	e.wantPlaces(e.open(), at)
}

func (e *exercise) deaths() {
	l := e.open()
	witness, ok := l.(store.Witness)
	if !ok {
		e.Skip("it sees no deaths")
	}
	lives := e.process
	other := e.open()
	closed := e.process
	e.wantErr("close", other.Close(), nil)
	for _, process := range []int64{lives, closed, 12345} {
		if witness.Dead(process) {
			e.Errorf("process %d is dead", process)
		}
	}
	if e.place.Kill == nil {
		return
	}
	e.open()
	e.place.Kill(e.T, e.process)
	e.eventually("nobody sees the death", nil, func() error {
		if !witness.Dead(e.process) {
			return errors.New("it lives")
		}
		return nil
	})
	if witness.Dead(lives) {
		e.Error("the witness is dead")
	}
}
