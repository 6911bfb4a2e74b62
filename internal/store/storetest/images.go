package storetest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) save(l store.Log, image store.Image) {
	e.Helper()
	e.wantErr("save", l.Save(e.Context(), image), nil)
}

// saves has one image saved after the other.
func (e *exercise) saves() {
	l, places := e.begun(7)
	next := places[7]
	var newest store.Image
	for _, test := range []struct {
		image string
		at    store.Position
		want  error
	}{
		{"the first", places[2], nil},
		{"one of the next entry", places[3], nil},
		{"one of a later entry", places[6], nil},
		{"one of the same entry", places[6], store.ErrOlder},
		{"one of an entry before", places[5], store.ErrOlder},
		{"one of the entry of the image before", places[3], store.ErrOlder},
		{"one of an entry that was trimmed", places[2], store.ErrOlder},
		{"one of the beginning", places[0], store.ErrOlder},
		{"one of another log", store.Position{Log: next.Log + 1, Sum: next.Sum, Seq: next.Seq}, store.ErrLost},
		{"one of another entry", store.Position{Log: next.Log, Sum: next.Sum + 1, Seq: next.Seq}, store.ErrLost},
		{"one ahead of the log", store.Position{Log: next.Log, Sum: next.Sum, Seq: next.Seq + 1000}, store.ErrLost},
		{"one of the last entry", next, nil},
	} {
		image := store.Image{At: test.at, Bytes: []byte(test.image)}
		e.wantErr("save "+test.image, e.open().Save(e.Context(), image), test.want)
		if test.want == nil {
			newest = image
		}
		e.wantImage(l, newest)
		e.wantImage(e.open(), newest)
	}
	e.wantPlaces(l, next)
	e.wantPlaces(e.open(), next, e.append(l, next, entry(1, 7)))
}

// trims: what the image before the newest covers is dropped, and all behind it is there.
func (e *exercise) trims() {
	l, places := e.begun(8)
	e.save(l, imageAt(places[3])) // the image before is that of the beginning
	e.wantPlaces(l, places[0], places[1:]...)
	e.save(l, imageAt(places[6]))
	for _, reader := range []store.Log{l, e.open()} {
		for _, at := range places[:3] {
			e.wantNoPlace(reader, at, store.ErrTrimmed)
		}
		for i := 3; i < len(places); i++ {
			e.wantPlaces(reader, places[i], places[i+1:]...)
		}
	}
	wrong := places[3]
	wrong.Sum++
	e.wantNoPlace(l, wrong, store.ErrLost)
}

// noise returns bytes that cannot be compressed, and are others for each number.
func noise(number byte, size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{number}).Read(b)
	return b
}

func (e *exercise) largeImage() {
	l, image := e.open(), newImage("")
	image.Bytes = noise(1, 9<<20)
	e.wantErr("begin", l.Begin(e.Context(), 0, image), nil)
	e.wantImage(e.open(), image)
	for n, bytes := range [][]byte{noise(2, 7<<20+1), {}} {
		image = store.Image{At: e.append(l, image.At, entry(1, int64(n))), Bytes: bytes}
		e.save(l, image)
		e.wantImage(e.open(), image)
	}
}

// shownAtOnce has processes save and load images at the same time: none is seen in part, and none
// is followed by an older one.
func (e *exercise) shownAtOnce() {
	l, places := e.begun(10)
	start, err := l.Load(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	images := []store.Image{start}
	for i, at := range places[1:] {
		images = append(images, store.Image{At: at, Bytes: noise(byte(i), 100_000+300_000*(i%3))})
	}
	var savers, loaders sync.WaitGroup
	var done atomic.Bool
	for first := range 2 {
		saver := e.open()
		savers.Go(func() {
			for i := 1 + first; i < len(images); i += 2 {
				if err := saver.Save(e.Context(), images[i]); err != nil {
					e.Log(err) // the other is ahead
				}
			}
		})
	}
	loader := e.open()
	loaders.Go(func() {
		for last := 0; !done.Load(); {
			image, err := loader.Load(e.Context())
			which := slices.IndexFunc(images, func(is store.Image) bool {
				return is.At == image.At && bytes.Equal(is.Bytes, image.Bytes)
			})
			if err != nil || which < last {
				e.Errorf("image %d is followed by %d, of %d with %d bytes, error %v", last, which, image.At.Seq, len(image.Bytes), err)
				return
			}
			last = which
		}
	})
	savers.Wait()
	done.Store(true)
	loaders.Wait()
	e.wantImage(l, images[len(images)-1])
}
