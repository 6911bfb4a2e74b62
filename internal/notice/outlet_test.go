package notice_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/notice"
)

// book is what was handed out.
type book struct {
	mu    sync.Mutex
	got   []int
	block chan struct{} // of what a hand waits for; nil for nothing
}

// to hands to one handler.
func to(hand func(n int)) notice.Handing[int] {
	return notice.Handing[int]{Handlers: 1, Hand: func(_, n int) { hand(n) }, Handed: func(int) {}, Panicked: func(int, any) {}}
}

func (b *book) hand(n int) {
	if b.block != nil {
		<-b.block
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, n)
}

func (b *book) all() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

func TestQueueKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(book)
		o := notice.NewOutlet(to(b.hand))
		o.Post(0) // lost: the outlet begins closed
		o.Open()
		for n := range 100 {
			o.Post(n + 1)
		}
		o.PostLater(101)
		synctest.Wait()
		o.Close()
		o.Post(102)
		o.Drain(time.Second)
		got := b.all()
		if len(got) != 101 || !slices.IsSorted(got) || got[0] != 1 {
			t.Errorf("handed out: %v", got)
		}
	})
}

// What only PostLater has queued is handed out by Drain at the latest.
func TestPostLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(book)
		o := notice.NewOutlet(to(b.hand))
		o.Open()
		o.PostLater(1)
		synctest.Wait()
		if got := b.all(); len(got) != 0 {
			t.Errorf("at once: %v", got)
		}
		o.Close()
		o.Drain(time.Second)
		if got := b.all(); !slices.Equal(got, []int{1}) {
			t.Errorf("after Drain: %v", got)
		}
	})
}

func TestDrainWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		takes time.Duration // the event that is under way
		want  time.Duration // Drain
	}{
		{"for an event", 300 * time.Millisecond, 300 * time.Millisecond},
		{"no longer than it may", time.Hour, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := notice.NewOutlet(to(func(int) {}))
				o.Open()
				if !o.Begin() {
					t.Fatal("closed")
				}
				o.Keep() // for another one
				o.End()
				go func() {
					time.Sleep(tt.takes)
					o.End()
				}()
				if !o.Close() || o.Close() || o.Begin() || o.IsOpen() {
					t.Error("is not closed, or twice")
				}
				began := time.Now()
				o.Drain(time.Second)
				took := time.Since(began)
				time.Sleep(tt.takes) // the bubble waits for the event
				if took != tt.want || !o.IsOver() {
					t.Errorf("took %v, want %v; over: %v", took, tt.want, o.IsOver())
				}
			})
		})
	}
}

// Drain waits for many events, each of which takes less than it would wait for one, and those who
// call it meanwhile wait, too.
func TestDrainWaitsForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(book)
		o := notice.NewOutlet(to(func(n int) {
			time.Sleep(600 * time.Millisecond)
			b.hand(n)
		}))
		o.Open()
		o.Post(1)
		o.PostBegun(2)
		o.Keep()
		o.Close()
		go o.Drain(time.Second, 3, 4)
		synctest.Wait()
		o.Drain(10 * time.Second)
		if got := b.all(); !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("handed out: %v", got)
		}
	})
}

// Behind a hand that takes for ever, events that may be lost are, once too many wait. What is left
// when Drain gives up is never handed out.
func TestSlowHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{block: make(chan struct{})}
		o := notice.NewOutlet(to(b.hand))
		o.Open()
		o.Post(-1)
		synctest.Wait() // it is under way
		taken := 0
		for n := range 5000 {
			if o.PostLax(n) {
				taken++
			}
		}
		o.Post(5000)
		if taken != 1024 {
			t.Errorf("%d events that may be lost wait", taken)
		}
		o.Close()
		o.Drain(time.Second)
		close(b.block)
		synctest.Wait()
		if got := b.all(); !slices.Equal(got, []int{-1}) {
			t.Errorf("handed out: %v", got)
		}
	})
}

// A hand that ends its goroutine takes no other event with it.
func TestHandEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(book)
		o := notice.NewOutlet(to(func(n int) {
			if n == 1 {
				runtime.Goexit()
			}
			b.hand(n)
		}))
		o.Open()
		for n := range 4 {
			o.Post(n)
		}
		synctest.Wait()
		o.Close()
		o.Drain(time.Second)
		if got := b.all(); !slices.Equal(got, []int{0, 2, 3}) {
			t.Errorf("handed out: %v", got)
		}
	})
}
