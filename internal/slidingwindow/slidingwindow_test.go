package slidingwindow

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// Compared with their definitions, for all small numbers.
func TestSmallNumbers(t *testing.T) {
	const most = 12
	for window := int64(1); window <= most; window++ {
		for count := int64(0); count <= 2*most; count++ {
			for left := int64(0); left <= window; left++ {
				if got, want := Weighted(count, left, window), count*left/window; got != want {
					t.Errorf("Weighted(%d, %d, %d) is %d, want %d", count, left, window, got, want)
				}
			}
			for room := int64(0); room <= 2*most; room++ {
				want := int64(0)
				for count*(window-want)/window > room {
					want++
				}
				if got := Fades(count, room, window); got != want {
					t.Errorf("Fades(%d, %d, %d) is %d, want %d", count, room, window, got, want)
				}
			}
		}
	}
}

// Compared with numbers that cannot overflow.
func TestLargeNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	large := func(most int64) int64 {
		switch random.IntN(4) {
		case 0:
			return most
		case 1:
			return random.Int64N(min(most, 1000) + 1)
		}
		return random.Int64N(most>>(1+random.IntN(20)) + 1)
	}
	weighted := func(count, left, window int64) int64 {
		n := new(big.Int).Mul(big.NewInt(count), big.NewInt(left))
		return n.Div(n, big.NewInt(window)).Int64()
	}
	for range 100_000 {
		count, window := large(math.MaxInt64), max(1, large(math.MaxInt64))
		left, room := large(window), large(count)
		if got, want := Weighted(count, left, window), weighted(count, left, window); got != want {
			t.Fatalf("Weighted(%d, %d, %d) is %d, want %d", count, left, window, got, want)
		}
		e := Fades(count, room, window)
		if e < 0 || e > window || weighted(count, window-e, window) > room {
			t.Fatalf("Fades(%d, %d, %d) is %d: too early", count, room, window, e)
		}
		if e > 0 && weighted(count, window-e+1, window) <= room {
			t.Fatalf("Fades(%d, %d, %d) is %d: too late", count, room, window, e)
		}
	}
}
