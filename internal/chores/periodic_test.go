package chores

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunsAtEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []time.Duration
		began := time.Now()
		stop := Every(time.Second, nil, func() { ran = append(ran, time.Since(began)) })
		time.Sleep(3*time.Second + 1)
		var all sync.WaitGroup
		for range 3 {
			all.Go(stop)
		}
		all.Wait()
		time.Sleep(time.Hour)
		if len(ran) != 3 || ran[0] != time.Second || ran[2] != 3*time.Second {
			t.Errorf("it ran after %v", ran)
		}
	})
}

func TestClosingEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		stop := Every(time.Second, closing, func() { t.Error("it ran") })
		close(closing)
		synctest.Wait()
		time.Sleep(time.Minute)
		stop()
	})
}

func TestStopWaitsForWorkUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		stop := Every(time.Second, nil, func() {
			time.Sleep(time.Minute)
			ended = true
		})
		time.Sleep(time.Second + 1)
		if stop(); !ended {
			t.Error("work goes on after stop")
		}
	})
}
