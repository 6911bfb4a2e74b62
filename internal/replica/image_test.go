package replica

import (
	"bytes"
	"context"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// hooked is a log that does something before an image is saved, or between the load of one and its
// arrival.
type hooked struct {
	store.Log
	loads, saves func()
	saved        int
}

func (l *hooked) Load(ctx context.Context) (store.Image, error) {
	image, err := l.Log.Load(ctx)
	once(&l.loads)
	return image, err
}

func (l *hooked) Save(ctx context.Context, image store.Image) error {
	once(&l.saves)
	l.saved++
	return l.Log.Save(ctx, image)
}

func atOnce(time.Time) bool { return true }

func once(do *func()) {
	if f := *do; f != nil {
		*do = nil
		f()
	}
}

// A process whose image is overtaken by those of others, which trim the log, has nothing to report,
// and leaves the next image for later. So it is with one that is taken from the engine, and with
// one that is made beside it.
func TestImageIsOvertaken(t *testing.T) {
	for name, large := range map[string]bool{"taken": false, "beside": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, slow, func(b *bench) { overtakeImage(b, large) })
		})
	}
}

func overtakeImage(b *bench, large bool) {
	log := new(hooked)
	first, second := b.open(), b.open(func(o *Options) { log.Log = o.Log; o.Log = log })
	b.quota(first, state.Quota{MaxRPM: 100})
	overtaken := false
	overtake := func() {
		overtaken = true
		for range 2 { // the log keeps what is behind the last image but one
			b.record(first, 1)
			if err := first.makeImage(); err != nil {
				b.Error(err)
			}
		}
		second.Fresh(b.Context(), 0)
	}
	second.mu.Lock()
	if second.volume = 1 << 30; large {
		log.loads, second.image.Size = overtake, mostTaken+1
	} else {
		log.saves = overtake
	}
	second.saveImage(atOnce)
	second.mu.Unlock()
	time.Sleep(time.Minute)
	second.mu.Lock()
	defer second.mu.Unlock()
	if !overtaken || second.volume >= leastVolume || second.saving {
		b.Errorf("overtaken %v, volume %d, saving %v", overtaken, second.volume, second.saving)
	}
	if b.told(func(error) bool { return true }) {
		b.Errorf("it reports %v", b.errs)
	}
}

// An image that is taken from the engine is that which is made beside it.
func TestImageIsTaken(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		r := b.open()
		b.quota(r, state.Quota{MaxRPM: 100})
		b.record(r, 1)
		b.admit(r)
		var images []store.Image
		for _, large := range []bool{false, true} {
			r.mu.Lock()
			taken := r.takeImage()
			if r.volume = 1 << 30; large {
				r.image.Size = mostTaken + 1
			}
			r.saveImage(atOnce)
			r.mu.Unlock()
			time.Sleep(imageAgain / 2)
			saved, err := r.log.Load(b.Context())
			if err != nil || saved.At != taken.At || !bytes.Equal(saved.Bytes, taken.Bytes) {
				t.Errorf("large %v: %d bytes of %v are saved, want %d of %v: %v", large, len(saved.Bytes), saved.At, len(taken.Bytes), taken.At, err)
			}
			images = append(images, saved)
		}
		if images[0].At == images[1].At {
			t.Error("there is one image only")
		}
	})
}

// However much comes, what is behind an image is kept for a while: whoever is late need not load
// one.
func TestImagesLeaveTime(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		log := new(hooked)
		r := b.open(func(o *Options) { log.Log = o.Log; o.Log = log })
		const span = 10 * time.Second
		for range span / (100 * time.Millisecond) {
			r.mu.Lock()
			r.volume = 1 << 30
			r.mu.Unlock()
			b.record(r, 1)
			time.Sleep(100 * time.Millisecond)
		}
		if most := int(span/imageAgain) + 2; log.saved > most || log.saved < most/2 {
			t.Errorf("%d images in %v, want %d at most", log.saved, span, most)
		}
	})
}
