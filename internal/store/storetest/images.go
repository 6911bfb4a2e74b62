package storetest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

func (e *exercise) save(l store.Log, image store.Image) {
	e.Helper()
	e.wantErr("save", l.Save(e.Context(), image), nil)
}

func (e *exercise) newestImage() {
	l, places := e.begun(6)
	for _, at := range []store.Position{places[2], places[3], places[6]} {
		e.save(l, imageAt(at))
		e.wantImage(l, imageAt(at))
		e.wantImage(e.open(), imageAt(at))
	}
	e.wantPlaces(l, places[6])
	at := e.append(l, places[6], entry(1, 7))
	e.wantPlaces(e.open(), places[6], at)
}

func (e *exercise) olderImage() {
	l, places := e.begun(4)
	newest := imageAt(places[3])
	e.save(l, newest)
	for _, at := range []store.Position{places[2], places[3], places[0]} {
		err := e.open().Save(e.Context(), store.Image{At: at, Bytes: []byte("older")})
		e.wantErr("save", err, store.ErrOlder)
	}
	e.wantImage(l, newest)
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

func (e *exercise) imagePlace() {
	l, places := e.begun(4)
	newest := imageAt(places[2])
	e.save(l, newest)
	for _, at := range []store.Position{
		{Log: places[3].Log + 1, Sum: places[3].Sum, Seq: places[3].Seq},
		{Log: places[3].Log, Sum: places[3].Sum + 1, Seq: places[3].Seq},
		{Log: places[4].Log, Sum: places[4].Sum, Seq: places[4].Seq + 1000},
	} {
		e.wantErr("save", l.Save(e.Context(), imageAt(at)), store.ErrLost)
	}
	e.wantImage(l, newest)
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
	done := make(chan struct{})
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
		for last := 0; ; {
			image, err := loader.Load(e.Context())
			which := slices.IndexFunc(images, func(is store.Image) bool {
				return is.At == image.At && bytes.Equal(is.Bytes, image.Bytes)
			})
			if err != nil || which < last {
				e.Errorf("image %d is followed by %d, of %d with %d bytes, error %v", last, which, image.At.Seq, len(image.Bytes), err)
				return
			}
			last = which
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
	e.wantImage(l, images[len(images)-1])
}
