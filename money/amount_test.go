// Amounts: units, floats, sums that stop at the ends, and an oracle of big numbers.

package money_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestUnits(t *testing.T) {
	for got, want := range map[money.Amount]string{
		0:                                    "$0.00",
		money.Micro:                          "$0.000001",
		money.Cent:                           "$0.01",
		money.Dollar:                         "$1.00",
		12*money.Dollar + 50*money.Cent:      "$12.50",
		-money.Micro:                         "-$0.000001",
		1_234_567 * money.Dollar:             "$1234567.00",
		money.Dollar + 100*money.Micro:       "$1.0001",
		-(99*money.Cent + 9000*money.Micro):  "-$0.999",
		10*money.Cent + 120_000*money.Micro:  "$0.22",
		money.Max:                            "$9223372036854.775807",
		money.Min:                            "-$9223372036854.775808",
		money.Max - 775_807*money.Micro:      "$9223372036854.00",
		money.Min + 775_808 - 10*money.Micro: "-$9223372036854.00001",
	} {
		if got.String() != want {
			t.Errorf("%d micro-dollars are %v, want %s", int64(got), got, want)
		}
	}
}

func TestUSD(t *testing.T) {
	for _, c := range []struct {
		dollars float64
		want    money.Amount
	}{
		{0, 0},
		{math.Copysign(0, -1), 0},
		{12.50, 12_500_000},
		{-12.50, -12_500_000},
		// 100 times each of these is below a whole number, so a conversion that cuts loses a cent.
		{1.15, 1_150_000},
		{18.99, 18_990_000},
		{136.98, 136_980_000},
		{147.23, 147_230_000},
		{0.1 + 0.2, 300_000},
		{0.000001, 1},
		{0.0000006, 1},
		{0.0000004, 0},
		{-0.0000006, -1},
		{math.SmallestNonzeroFloat64, 0},
		// Halves that a float holds exactly go to the even micro-dollar.
		{0.0078125, 7_812},
		{0.0234375, 23_438},
		{-0.0078125, -7_812},
		// The product with a million, as a float, is four micro-dollars less.
		{44553095760.772156, 44_553_095_760_772_156},
		{9e12, 9_000_000_000_000 * money.Dollar},
		{9223372036854.775, 9_223_372_036_854_775_391},
		{9223372036854.78, money.Max},
		{-9223372036854.78, money.Min},
		{1e13, money.Max},
		{-1e13, money.Min},
		{math.MaxFloat64, money.Max},
		{-math.MaxFloat64, money.Min},
		{math.Inf(1), money.Max},
		{math.Inf(-1), money.Min},
		{math.NaN(), money.Min},
	} {
		if got := money.USD(c.dollars); got != c.want {
			t.Errorf("USD(%v) = %d micro-dollars, want %d", c.dollars, int64(got), int64(c.want))
		}
	}
}

// nearest returns what USD should: the exact value of a float in micro-dollars, rounded once, half
// to even, within the ends.
func nearest(dollars float64) money.Amount {
	if math.IsNaN(dollars) || math.IsInf(dollars, -1) {
		return money.Min
	}
	if math.IsInf(dollars, 1) {
		return money.Max
	}
	exact := new(big.Rat).SetFloat64(dollars)
	exact.Mul(exact, big.NewRat(int64(money.Dollar), 1))
	// Twice the value, rounded down: odd is at or above a half.
	floor, rest := new(big.Int).DivMod(exact.Num(), exact.Denom(), new(big.Int))
	switch rest.Lsh(rest, 1).Cmp(exact.Denom()) {
	case 1:
		floor.Add(floor, big.NewInt(1))
	case 0:
		floor.Add(floor, new(big.Int).And(floor, big.NewInt(1)))
	}
	return clamped(floor)
}

// clamped returns a number of micro-dollars as an amount, or the nearer end.
func clamped(n *big.Int) money.Amount {
	switch {
	case n.IsInt64():
		return money.Amount(n.Int64())
	case n.Sign() < 0:
		return money.Min
	}
	return money.Max
}

func FuzzUSD(f *testing.F) {
	for _, dollars := range []float64{0, 12.5, -0.0000005, 0.0078125, 1.15, 4503599627.370497, 9223372036854.775, 1e13, -1e300, 5e-324} {
		f.Add(math.Float64bits(dollars))
	}
	f.Add(math.Float64bits(math.NaN()))
	f.Add(math.Float64bits(math.Inf(-1)))
	f.Fuzz(func(t *testing.T, bits uint64) {
		dollars := math.Float64frombits(bits)
		if got, want := money.USD(dollars), nearest(dollars); got != want {
			t.Errorf("USD(%v) = %d micro-dollars, want %d", dollars, int64(got), int64(want))
		}
	})
}

// Metrics and charts get dollars. Up to four billion nothing is lost on the way and back.
func TestDollars(t *testing.T) {
	for a, want := range map[money.Amount]float64{
		0: 0, 12_500_000: 12.5, -1: -0.000001, money.Max: 9223372036854.775807, money.Min: -9223372036854.775808,
	} {
		if got := a.Dollars(); got != want {
			t.Errorf("%v is %v dollars, want %v", a, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 / racetest.Factor {
		a := money.Amount(r.Int64N(1<<53)-1<<52) >> r.IntN(52)
		if got := money.USD(a.Dollars()); got != a {
			t.Fatalf("%v came back as %v", a, got)
		}
	}
}

// edges are the amounts at which sums and products may go wrong.
var edges = []money.Amount{
	money.Min, money.Min + 1, money.Min / 2, -money.Dollar, -2, -1, 0, 1, 2, money.Dollar,
	money.Max / 2, money.Max/2 + 1, money.Max - 1, money.Max,
}

// Sums, differences and products are exact, and stop at the ends.
func TestArithmeticOracle(t *testing.T) {
	check := func(a, b money.Amount) {
		x, y := big.NewInt(int64(a)), big.NewInt(int64(b))
		if got, want := a.Add(b), clamped(new(big.Int).Add(x, y)); got != want {
			t.Errorf("%d + %d = %d, want %d", int64(a), int64(b), int64(got), int64(want))
		}
		if got, want := a.Sub(b), clamped(new(big.Int).Sub(x, y)); got != want {
			t.Errorf("%d - %d = %d, want %d", int64(a), int64(b), int64(got), int64(want))
		}
		n := int(b) // its lower half on a machine of 32 bits
		if got, want := a.Mul(n), clamped(new(big.Int).Mul(x, big.NewInt(int64(n)))); got != want {
			t.Errorf("%d * %d = %d, want %d", int64(a), n, int64(got), int64(want))
		}
	}
	for _, a := range edges {
		for _, b := range edges {
			check(a, b)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200_000 / racetest.Factor {
		check(money.Amount(r.Uint64())>>r.IntN(64), money.Amount(r.Uint64())>>r.IntN(64))
	}
}
