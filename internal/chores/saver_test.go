package chores_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/chores"
	"dappco.re/go/core/go-ratelimit/internal/notice"
)

var errDisk = errors.New("the disk is full")

// owner has a state that is a number, and notes when it was saved.
type owner struct {
	storage, state sync.Mutex
	saver          *chores.Saver
	start          time.Time
	changes, saved int
	at             []time.Duration // when a save was tried, after start
	failures       int             // how many saves fail from here on
	reported       []error
}

// newOwner returns an owner with a Delay of a second and a MaxWait of three.
func newOwner() *owner {
	o := &owner{start: time.Now()}
	o.saver = chores.NewSaver(chores.SaverOptions{
		Delay: time.Second, MaxWait: 3 * time.Second, Storage: &o.storage, Save: o.save,
		Report: notice.NewReporter(func(err error) {
			o.storage.Lock() // which must not be held by the caller
			defer o.storage.Unlock()
			o.reported = append(o.reported, err)
		}).Report,
	})
	return o
}

// save is to be called with the storage lock held.
func (o *owner) save() (err error) {
	o.state.Lock()
	o.saver.Begin()
	saved := o.changes
	o.state.Unlock()
	o.at = append(o.at, time.Since(o.start))
	if o.failures > 0 {
		o.failures--
		err = errDisk
	} else {
		o.saved = saved
	}
	o.saver.End(err)
	return err
}

func (o *owner) change() time.Duration {
	o.state.Lock()
	defer o.state.Unlock()
	o.changes++
	return o.saver.Changed()
}

func (o *owner) byHand() error {
	o.storage.Lock()
	defer o.storage.Unlock()
	return o.save()
}

// close returns what Finish returns.
func (o *owner) close(closed bool) error {
	o.saver.Stop()
	o.storage.Lock()
	defer o.storage.Unlock()
	return o.saver.Finish(closed)
}

// check waits until a time after the start, and checks when saves were tried until then.
func (o *owner) check(t *testing.T, after time.Duration, want ...time.Duration) {
	t.Helper()
	time.Sleep(after - time.Since(o.start))
	synctest.Wait()
	o.storage.Lock()
	defer o.storage.Unlock()
	if !slices.Equal(o.at, want) {
		t.Errorf("saved after %v, want %v", o.at, want)
	}
}

const ms = time.Millisecond

func TestSaver(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(*testing.T, *owner)
	}{
		{"no change, no save", func(t *testing.T, o *owner) {
			o.check(t, time.Minute)
		}},
		{"a delay after the last change", func(t *testing.T, o *owner) {
			o.change()
			time.Sleep(400 * ms)
			o.change()
			o.check(t, time.Minute, 1400*ms)
		}},
		{"no later than MaxWait", func(t *testing.T, o *owner) {
			for range 8 {
				o.change()
				time.Sleep(500 * ms)
			}
			o.check(t, time.Minute, 3000*ms, 4500*ms)
		}},
		{"a save by hand makes another needless", func(t *testing.T, o *owner) {
			o.change()
			o.byHand()
			o.check(t, time.Minute, 0)
		}},
		{"pauses after failures double up to ten seconds", func(t *testing.T, o *owner) {
			o.failures = 6
			o.change()
			o.check(t, time.Minute, 1000*ms, 2000*ms, 4000*ms, 8000*ms, 16000*ms, 26000*ms, 36000*ms)
			for _, err := range o.reported {
				if !errors.Is(err, errDisk) || err.Error() != "autosave: the disk is full" {
					t.Errorf("reported %v", err)
				}
			}
			if n := len(o.reported); n != 6 {
				t.Errorf("reported %d errors, want 6", n)
			}
		}},
		{"no change cuts a pause short", func(t *testing.T, o *owner) {
			o.failures = 2
			o.change()
			time.Sleep(2100 * ms)
			o.change()
			o.check(t, time.Minute, 1000*ms, 2000*ms, 4000*ms)
		}},
		{"a success ends the pause", func(t *testing.T, o *owner) {
			o.failures = 1
			o.change()
			time.Sleep(1500 * ms)
			o.byHand()
			o.check(t, 9*time.Second, 1000*ms, 1500*ms)
			o.failures = 1
			o.change()
			o.check(t, time.Minute, 1000*ms, 1500*ms, 10000*ms, 11000*ms)
		}},
		{"a failure by hand is retried", func(t *testing.T, o *owner) {
			o.failures = 1
			if err := o.byHand(); err != errDisk {
				t.Error(err)
			}
			o.check(t, time.Minute, 0, 1000*ms)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOwner()
				tt.run(t, o)
				if err := o.close(false); err != nil || o.saved != o.changes {
					t.Errorf("saved %d of %d changes in the end, %v", o.saved, o.changes, err)
				}
			})
		})
	}
}

// Changes within the time that Changed returns need not be told.
func TestChangedReturnsItsGrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner()
		if d := o.change(); d != ms {
			t.Errorf("%v, want a millisecond", d)
		}
		o.close(false)

		fast := chores.NewSaver(chores.SaverOptions{Delay: 16, MaxWait: 160, Storage: &o.storage, Save: o.save})
		defer fast.Stop()
		if d := fast.Changed(); d != 1 {
			t.Errorf("%v, want a sixteenth of the delay", d)
		}
	})
}

func TestMaxWaitIsTenTimesDelayByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner()
		o.saver = chores.NewSaver(chores.SaverOptions{Delay: time.Second, Storage: &o.storage, Save: o.save})
		for range 24 {
			o.change()
			time.Sleep(500 * ms)
		}
		o.check(t, time.Minute, 10*time.Second, 12500*ms)
		o.close(false)

		slow := chores.NewSaver(chores.SaverOptions{Delay: 1 << 62, Storage: &o.storage, Save: o.save})
		defer slow.Stop()
		slow.Changed()
		o.check(t, time.Hour, 10*time.Second, 12500*ms)
	})
}

func TestFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner()
		o.change()
		o.failures = 1
		if err := o.close(false); err != errDisk {
			t.Errorf("%v, want the error of the save", err)
		}
		if err := o.close(true); err != errDisk || len(o.at) != 1 {
			t.Errorf("closed: %v after %d saves, want the error of the first", err, len(o.at))
		}
		time.Sleep(time.Minute)
		if len(o.at) != 1 {
			t.Error("retried in the background")
		}
		if err := o.close(false); err != nil || o.saved != 1 || len(o.at) != 2 {
			t.Errorf("once more: %v, saved %d changes", err, o.saved)
		}
		if err := o.close(false); err != nil || len(o.at) != 2 {
			t.Errorf("without a change: %v after %d saves", err, len(o.at))
		}
	})
}

// A limiter without AutoPersist has no saver.
func TestNilSaver(t *testing.T) {
	var s *chores.Saver
	s.Begin()
	s.End(errDisk)
	s.Stop()
	if err := s.Finish(false); err != nil {
		t.Error(err)
	}
}
