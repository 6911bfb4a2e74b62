package chores

import (
	"sync"
	"time"
)

// Every calls do at every interval, in a goroutine of its own, until stop is called or closing is
// closed. Ticks that pass while do runs are dropped. Once stop has returned, do does not run; stop
// may be called more than once, and by several goroutines, but not by do.
func Every(interval time.Duration, closing <-chan struct{}, do func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-closing:
				return
			case <-ticker.C:
				do()
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(quit) })
		<-done
	}
}
