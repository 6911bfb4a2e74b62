package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Who has waited leaves nothing with the limiters that told him.
func TestWaitLeavesNoWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGCRA(PerSecond(1), 1)
		if err != nil {
			t.Fatal(err)
		}
		root, err := NewTree("root", g)
		if err != nil {
			t.Fatal(err)
		}
		mute := All(g, mute{})
		for _, w := range []interface{ Wait(context.Context) error }{g, All(g), root, mute} {
			g.Take(1)
			if err := w.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for i, c := range []*caller{&g.caller, &root.caller, &mute.caller} {
			if len(c.kicks) != 0 {
				t.Errorf("%d: %d watchers", i, len(c.kicks))
			}
		}
	})
}

// mute is a limiter that admits everything and tells nobody.
type mute struct{}

func (mute) TakeAt(_ time.Time, n int) Decision { return Decision{OK: true, Remaining: n} }
