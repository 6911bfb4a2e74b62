package replica

import (
	"testing"
	"time"
)

// A process in a hurry rests for others that are so, too, and that get on less.
func TestPace(t *testing.T) {
	const own = 200
	for _, tt := range []struct {
		name   string
		own    int
		others []int // the batches of the others
		every  int   // own batches is one of them
		rests  bool
	}{
		{"alone", own, nil, 1, false},
		{"all alike", own, []int{own, own, own}, 1, false},
		{"others get on faster", own / 4, []int{own, own, own}, 1, false},
		{"others get on a little less", own, []int{own * 19 / 20, own * 19 / 20}, 1, true},
		{"others get on half as fast", own, []int{own, own, own}, 2, true},
		{"others get on a quarter as fast", own, []int{own, own, own}, 4, true},
		{"one of them does", own, []int{own}, 4, true},
		{"others have few callers", own, []int{1, 5, own / 4}, 1, false},
		{"and are seldom heard", own, []int{1, 5, own / 4}, 4, false},
		{"others come in bursts, now and then", own, []int{own, own}, 500, false},
		{"a few callers, beside many", 3, []int{own, own}, 4, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p pace
			rested := 0
			const batches = 2000
			for i := range batches {
				if i%tt.every == 0 {
					for process, n := range tt.others {
						for range n {
							p.hear(int64(process))
						}
					}
				}
				if p.sent(tt.own) > 0 {
					rested++
				}
			}
			if tt.rests && rested < batches/2 || !tt.rests && rested > batches/4 {
				t.Errorf("%d rests in %d batches, want many: %v", rested, batches, tt.rests)
			}
		})
	}
}

// What makes it rest is forgotten: the others are gone, or have caught up.
func TestPaceRecovers(t *testing.T) {
	slow := func(p *pace) (rest time.Duration) {
		for i := range 100 {
			if i%4 == 0 {
				for range 200 {
					p.hear(1)
				}
			}
			rest = max(rest, p.sent(200))
		}
		return rest
	}
	var p pace
	if got := slow(&p); got != mostRest {
		t.Errorf("it rests for %v, want %v", got, mostRest)
	}
	for range 50 {
		p.sent(200)
	}
	if p.rest != 0 || len(p.others) != 0 {
		t.Errorf("it rests for %v, for %d that are gone", p.rest, len(p.others))
	}
	slow(&p)
	for range 50 {
		for range 200 {
			p.hear(1)
		}
		p.sent(200)
	}
	if p.rest != 0 {
		t.Errorf("it rests for %v, and the other gets on", p.rest)
	}
	for process := range int64(10 * mostPeers) {
		p.hear(process)
	}
	if len(p.others) > mostPeers {
		t.Errorf("it knows %d others", len(p.others))
	}
}
