package replica

import (
	"context"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// loads is a log that does something between the load of an image and its arrival.
type loads struct {
	store.Log
	meanwhile func()
}

func (l *loads) Load(ctx context.Context) (store.Image, error) {
	image, err := l.Log.Load(ctx)
	if do := l.meanwhile; do != nil {
		l.meanwhile = nil
		do()
	}
	return image, err
}

// A process whose image is overtaken by those of others, which trim the log, has nothing to report,
// and leaves the next image for later.
func TestImageIsOvertaken(t *testing.T) {
	inBubble(t, slow, func(b *bench) {
		log := &loads{}
		first, second := b.open(), b.open(func(o *Options) { log.Log = o.Log; o.Log = log })
		b.quota(first, state.Quota{MaxRPM: 100})
		overtaken := false
		second.mu.Lock()
		log.meanwhile = func() {
			overtaken = true
			for range 2 { // the log keeps what is behind the last image but one
				b.record(first, 1)
				if err := first.makeImage(); err != nil {
					t.Error(err)
				}
			}
			second.Fresh(b.Context(), 0)
		}
		second.volume = 1 << 30
		second.saveImage()
		second.mu.Unlock()
		time.Sleep(time.Minute)
		second.mu.Lock()
		defer second.mu.Unlock()
		if !overtaken || second.volume >= leastVolume || second.saving {
			t.Errorf("overtaken %v, volume %d, saving %v", overtaken, second.volume, second.saving)
		}
		if b.told(func(error) bool { return true }) {
			t.Errorf("it reports %v", b.errs)
		}
	})
}
