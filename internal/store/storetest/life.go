package storetest

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) closes() {
	_, after := e.begun()
	l, waiting := e.open(), make(chan error, 1)
	go func() {
		_, err := l.Read(e.Context(), after, 6*soon, 0)
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	for range 2 {
		if err := l.Close(); err != nil {
			e.Error(err)
		}
	}
	if err := <-waiting; err == nil || time.Since(began) > soon {
		e.Errorf("a read ends %v after its log, with error %v", time.Since(began), err)
	}
	_, appendErr := l.Append(e.Context(), after, []store.Entry{entry(1, 1)})
	_, readErr := l.Read(e.Context(), after, 0, 0)
	_, loadErr := l.Load(e.Context())
	saveErr := l.Save(e.Context(), store.Image{At: after})
	beginErr := l.Begin(e.Context(), after.Log, newImage("x"))
	for i, err := range []error{appendErr, readErr, loadErr, saveErr, beginErr} {
		if err == nil {
			e.Errorf("method %d of a closed log has no error", i)
		}
	}
	if got := e.all(e.open(), after); len(got) != 0 {
		e.Errorf("a closed log has written %+v", got)
	}
}

func (e *exercise) deaths() {
	l, _ := e.begun()
	witness, ok := l.(store.Witness)
	if !ok {
		e.Skip("it sees no deaths")
	}
	lives := e.process
	other := e.open()
	closed := e.process
	if err := other.Close(); err != nil {
		e.Fatal(err)
	}
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
	for began := time.Now(); !witness.Dead(e.process); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > soon {
			e.Fatal("nobody sees the death")
		}
	}
	if witness.Dead(lives) {
		e.Error("the witness is dead")
	}
}
