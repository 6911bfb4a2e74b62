package notice

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Ten of a subject and then each hundredth are taken, and every one that is not is told of.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStorm(100)
		taken, left := 0, 0
		send := func(subject string, n int) {
			for range n {
				if take, leftOut := s.Take(subject); take {
					taken++
					left += leftOut
				}
			}
		}
		send("m", 1010)
		if taken != 10+10 || left != 10*99 {
			t.Errorf("%d were taken and %d left out", taken, left)
		}
		send("m", 50) // which a later minute tells of
		send("n", 1)
		time.Sleep(time.Minute)
		send("n", 1)
		if taken != 22 || left != 10*99+50 {
			t.Errorf("%d were taken and %d left out", taken, left)
		}
		taken = 0
		for range 1000 { // few at a time
			send("m", 1)
			time.Sleep(7 * time.Second)
		}
		if taken != 1000 {
			t.Errorf("%d of 1000 were taken", taken)
		}
		taken = 0
		for i := range 10_000 {
			send(fmt.Sprint("invented", i), 1)
		}
		send(strings.Repeat("x", mostBytes+1), 100)
		if most := stormKeys + firstOfStorm + 101; taken < stormKeys || taken > most || len(s.seen) > stormKeys+1 {
			t.Errorf("%d of 10,100 were taken, want %d at most; %d subjects", taken, most, len(s.seen))
		}
	})
}
