package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
)

// account is a cell's part of the merge. Against a simple model, whatever comes in whatever order:
// once nothing is in flight, others are exactly what others added before the latest answer, and
// never less than what was known before.
func TestAccountMerges(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		var a account
		var origin, own, applied, foreign, known int64
		for range 100 {
			switch random.IntN(5) {
			case 0:
				own += random.Int64N(5)
			case 1: // another process
				n := random.Int64N(5)
				origin, foreign = origin+n, foreign+n
			case 2: // a replay begins, or is applied with its reply lost
				if a.inFlight == 0 {
					a.inFlight = own - a.acked
				} else if applied < a.acked+a.inFlight {
					origin += a.acked + a.inFlight - applied
					applied = a.acked + a.inFlight
				}
			case 3:
				a.readLocked(origin, a.acked+a.inFlight)
				known = max(known, foreign-a.inFlight)
				if a.others < known || a.others > foreign+a.inFlight {
					t.Fatalf("seed %d: others are %d after a read, of %d with %d in flight", seed, a.others, foreign, a.inFlight)
				}
			case 4:
				if a.inFlight == 0 {
					continue
				}
				origin += a.acked + a.inFlight - applied
				applied = a.acked + a.inFlight
				a.ackLocked(origin)
				known = foreign
				if a.others != foreign || a.sure != foreign {
					t.Fatalf("seed %d: others are %d, sure %d, want %d", seed, a.others, a.sure, foreign)
				}
			}
			if a.sure > foreign || a.others < a.sure {
				t.Fatalf("seed %d: sure is %d and others are %d of %d", seed, a.sure, a.others, foreign)
			}
		}
	}
}

func TestAccountSaturates(t *testing.T) {
	a := account{inFlight: 5}
	a.ackLocked(math.MaxInt64)
	if a.others != math.MaxInt64-5 || a.lost != 0 {
		t.Errorf("%+v", a)
	}
	a.inFlight = 7
	a.ackLocked(math.MaxInt64)
	a.readLocked(math.MaxInt64, a.acked)
	if a.lost != 0 || a.others < math.MaxInt64-12 || a.acked != 12 {
		t.Errorf("%+v", a)
	}
}

// Cells that wait for their replay add up beyond a number of them, and nothing is dropped.
func TestOldCellsAddUp(t *testing.T) {
	g := &ledger{remote: &remote{origin: nowhere{}}, window: 1000}
	g.accountLocked(0)
	for sequence := range int64(1000) {
		g.rollLocked(sequence, 3, sequence+1)
		if len(g.cells) > maxAccounts {
			t.Fatalf("%d cells", len(g.cells))
		}
		if sequence == 500 {
			g.cells[0].inFlight = g.cells[0].own // its content is fixed
		}
	}
	var sum int64
	for _, a := range g.cells {
		sum += a.own
	}
	if sum != 3000 {
		t.Errorf("%d units wait, want 3000", sum)
	}
	for _, a := range g.cells {
		if a.inFlight != 0 && a.own != a.inFlight {
			t.Errorf("a replay in flight was changed: %+v", a)
		}
	}
}

type nowhere struct{ Origin }
