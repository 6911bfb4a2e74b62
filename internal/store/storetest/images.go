package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

// wantImage fails the test unless the store has that image.
func (e *exercise) wantImage(l store.Log, want store.Image) {
	e.Helper()
	image, err := l.Load(e.Context())
	if err != nil || image.At != want.At || !bytes.Equal(image.Bytes, want.Bytes) {
		e.Errorf("the image is of %+v with %d bytes, error %v, want that of %+v with %d",
			image.At, len(image.Bytes), err, want.At, len(want.Bytes))
	}
}

func (e *exercise) save(l store.Log, at store.Position) store.Image {
	e.Helper()
	image := store.Image{At: at, Bytes: fmt.Appendf(nil, "image of %d", at.Seq)}
	if err := l.Save(e.Context(), image); err != nil {
		e.Fatal(err)
	}
	return image
}

func (e *exercise) newestImage() {
	l, after := e.begun()
	places := e.grow(l, after, 1, 6)
	for _, i := range []int{1, 2, 5} {
		image := e.save(l, places[i])
		e.wantImage(l, image)
		e.wantImage(e.open(), image)
	}
	if got := e.all(l, places[5]); len(got) != 0 {
		e.Errorf("behind the image there are %+v", got)
	}
	at := e.append(l, places[5], entry(1, 7))
	if got := e.all(e.open(), places[5]); len(got) != 1 || got[0].At != at {
		e.Errorf("behind the image there are %+v", got)
	}
}

func (e *exercise) olderImage() {
	l, after := e.begun()
	places := e.grow(l, after, 1, 4)
	newest := e.save(l, places[2])
	for _, at := range []store.Position{places[1], places[2], after} {
		err := e.open().Save(e.Context(), store.Image{At: at, Bytes: []byte("older")})
		e.wantErr("save", err, store.ErrOlder)
	}
	e.wantImage(l, newest)
}

// trims: what the image before the newest covers is dropped, and all behind it is there.
func (e *exercise) trims() {
	l, after := e.begun()
	places := e.grow(l, after, 1, 8)
	e.save(l, places[2])
	if got := e.all(l, after); len(got) != 8 {
		e.Errorf("an image whose predecessor is the beginning leaves %d entries, want 8", len(got))
	}
	e.save(l, places[5])
	for _, reader := range []store.Log{l, e.open()} {
		e.wantNoPlace(reader, after, store.ErrTrimmed)
		e.wantNoPlace(reader, places[0], store.ErrTrimmed)
		e.wantNoPlace(reader, places[1], store.ErrTrimmed)
		for i, at := range places[2:] {
			if got := e.all(reader, at); len(got) != 5-i {
				e.Errorf("behind entry %d there are %d, want %d", i+2, len(got), 5-i)
			}
		}
	}
	wrong := places[2]
	wrong.Sum++
	e.wantNoPlace(l, wrong, store.ErrLost)
}

func (e *exercise) imagePlace() {
	l, after := e.begun()
	places := e.grow(l, after, 1, 4)
	newest := e.save(l, places[1])
	for _, at := range []store.Position{
		{Log: after.Log + 1, Sum: places[2].Sum, Seq: places[2].Seq},
		{Log: after.Log, Sum: places[2].Sum + 1, Seq: places[2].Seq},
		{Log: after.Log, Sum: places[3].Sum, Seq: places[3].Seq + 1000},
	} {
		e.wantErr("save", l.Save(e.Context(), store.Image{At: at, Bytes: []byte("wrong")}), store.ErrLost)
	}
	e.wantImage(l, newest)
}

// noise returns bytes that cannot be compressed, which begin and end with their number.
func noise(number byte, size int) []byte {
	r := rand.NewChaCha8([32]byte{number})
	b := make([]byte, size)
	r.Read(b)
	b[0], b[size-1] = number, number
	return b
}

func (e *exercise) largeImage() {
	l := e.open()
	image := newImage("")
	image.Bytes = noise(1, 9<<20)
	if err := l.Begin(e.Context(), 0, image); err != nil {
		e.Fatal(err)
	}
	e.wantImage(e.open(), image)
	image.At = e.append(l, image.At, entry(1, 1))
	image.Bytes = noise(2, 7<<20+1)
	if err := l.Save(e.Context(), image); err != nil {
		e.Fatal(err)
	}
	e.wantImage(e.open(), image)
	image.At = e.append(l, image.At, entry(1, 2))
	image.Bytes = []byte{}
	if err := l.Save(e.Context(), image); err != nil {
		e.Fatal(err)
	}
	e.wantImage(e.open(), image)
}

// shownAtOnce has processes save and load images at the same time: none is seen in part, and none
// is followed by an older one.
func (e *exercise) shownAtOnce() {
	const images = 5
	l, after := e.begun()
	places := e.grow(l, after, 1, 2*images)
	sizes := make(map[store.Position]int)
	var savers, loaders sync.WaitGroup
	done := make(chan struct{})
	for i, at := range places {
		sizes[at] = 100_000 + 300_000*(i%3)
	}
	for s := range 2 {
		saver := e.open()
		savers.Go(func() {
			for i := s; i < len(places); i += 2 {
				err := saver.Save(e.Context(), store.Image{At: places[i], Bytes: noise(byte(i), sizes[places[i]])})
				if err != nil {
					e.Log(err) // the other is ahead
				}
			}
		})
	}
	loader := e.open()
	loaders.Go(func() {
		for last := after.Seq; ; {
			image, err := loader.Load(e.Context())
			size, b := sizes[image.At], image.Bytes
			switch {
			case err != nil:
				e.Error(err)
				return
			case image.At.Seq < last:
				e.Errorf("the image of %d is followed by that of %d", last, image.At.Seq)
			case image.At != after && (len(b) != size || !bytes.Equal(b, noise(b[0], size)) || places[b[0]] != image.At):
				e.Errorf("the image of %d is torn: %d bytes, want %d", image.At.Seq, len(b), size)
				return
			}
			last = image.At.Seq
			select {
			case <-done:
				return
			default:
			}
		}
	})
	savers.Wait()
	close(done)
	loaders.Wait()
	last := len(places) - 1
	e.wantImage(l, store.Image{At: places[last], Bytes: noise(byte(last), sizes[places[last]])})
}
