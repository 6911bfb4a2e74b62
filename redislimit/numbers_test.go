package redislimit

import (
	"encoding/base64"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/limit"
)

// below of the script is exact where the products have more digits than a double, also right at the
// edge. A replica of the script's text, which nothing else runs with such numbers, could differ.
func TestBelowIsExact(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	script := redis.NewScript(source("common", "slidingcounter") +
		"local out = {}\nfor i = 1, #ARGV, 4 do out[#out + 1] = below(tonumber(ARGV[i]), tonumber(ARGV[i + 1]), " +
		"tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])) and 1 or 0 end\nreturn out")
	r := rand.New(rand.NewPCG(1, 2))
	var args []any
	var want []bool
	for range 4000 {
		a, b, c := 1+r.Int64N(1<<r.IntN(51)), 1+r.Int64N(1<<r.IntN(51)), 1+r.Int64N(1<<r.IntN(51))
		// d makes the products nearly equal.
		quotient := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		quotient.Div(quotient, big.NewInt(c))
		d := int64(1)
		if quotient.IsInt64() && quotient.Int64() < 1<<51-2 {
			d = max(quotient.Int64()+r.Int64N(3)-1, 1)
		}
		args = append(args, a, b, c, d)
		first, second := new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
		want = append(want, first.Cmp(second) < 0)
	}
	got, err := script.Run(t.Context(), client, nil, args...).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if (got[i] == 1) != want[i] {
			t.Errorf("%v × %v < %v × %v: %d, want %t", args[4*i], args[4*i+1], args[4*i+2], args[4*i+3], got[i], want[i])
		}
	}
}

// Any state is a decision that keeps its promises, or an error.
func FuzzReport(f *testing.F) {
	f.Add("0 60000000", int64(0), 1)
	f.Add("3 5 7", int64(120_000_000), 10)
	f.Add("60000000 5 7", int64(70_000_000), 10)
	f.Add("9007199254740991 9007199254740991 9007199254740991", int64(1<<51), min(1<<40, math.MaxInt))
	f.Add("-1 1", int64(1), 1)
	f.Add("", int64(1), 1)
	f.Fuzz(func(t *testing.T, report string, now int64, n int) {
		w := window{1000, 60_000_000}
		now = max(now, 0) % (1 << 53)
		b, err := newBucket("", limit.PerSecond(7), 1000)
		if err != nil {
			t.Fatal(err)
		}
		n = max(n, 0) % 1001
		for _, a := range []algorithm{cells{w, false}, cells{w, true}, slidingLog{w, 1}, b} {
			d, err := a.decide(report, now, n, true)
			if err != nil {
				if !errors.Is(err, errReply) {
					t.Errorf("%T: %v", a, err)
				}
				continue
			}
			if d.Remaining < 0 || d.Remaining > 1000 || d.RetryAfter < 0 || d.ResetAfter < 0 || d.OK == (d.RetryAfter > 0) {
				t.Errorf("%T: %q at %d and %d: %+v", a, report, now, n, d)
			}
		}
	})
}

// Any id is one that a Hold could have, or an error, and a row's name is read back or an
// error.
func FuzzNames(f *testing.F) {
	f.Add(`{"r":"e30=","p":[{"k":"w","s":"e30=","n":1,"b":[60,1]}]}`)
	f.Add(`60000000000 7 "a" "bb\xff" "eu"`)
	f.Add("1 1700000000 5\n3 5")
	f.Fuzz(func(t *testing.T, text string) {
		var g Group
		if h, err := g.Held(base64.RawURLEncoding.EncodeToString([]byte(text))); err == nil && h.held != nil {
			again, err := g.Held(h.ID())
			if err != nil || len(again.held.Parts) != len(h.held.Parts) {
				t.Errorf("%q: %+v, and read back %+v, %v", text, h, again, err)
			}
			for _, p := range h.held.Parts {
				p.change(p.N)
			}
		}
		if row, err := parseRow(text, "5"); err == nil {
			if again, err := parseRow(rowName(row), strconv.FormatInt(row.Count, 10)); err != nil || again != row {
				t.Errorf("%q: %+v, and read back %+v, %v", text, row, again, err)
			}
		}
		parseCursor(text)
		if a, err := parseAnswer(text); err == nil && (a.now < 0 || a.now >= 1<<53 || a.ok && text[0] != '1') {
			t.Errorf("%q: %+v", text, a)
		}
	})
}
