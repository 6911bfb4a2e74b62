// Package lives has the main test of the limiter: random lives, in which everything that the public
// API can do meets everything else. Limiters of each kind live the same life, and an oracle that
// keeps a list of all calls, and counts it anew for each question. Only tests are in it.
//
//	go test ./internal/test/lives -run TestLives -seed 17
//
// repeats one life. RATELIMIT_LONG=1 makes a million steps on each kind of limiter. TestLives of
// redisstore runs those over Redis.
package lives

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

var (
	oneSeed   = flag.Int64("seed", -1, "the seed of the only life of each kind; less than 0 for the usual ones")
	firstSeed = flag.Uint64("from", 0, "the first of the seeds")
	redisAt   = flag.String("redis", "", "where TestLives of redisstore serves the log of Redis")
)

// stepsOfLife is how long a life is: the state of a longer one is no richer.
const stepsOfLife = 250

// TestLives has a limiter live alone, and beside one of each shared kind.
func TestLives(t *testing.T) {
	for _, tt := range []struct {
		kinds       []string
		short, long int // steps
	}{
		{[]string{private}, 5000, 1_000_000},
		{[]string{private, inLog}, 1000, 1_000_000},
		{[]string{private, file}, 1000, 1_000_000},
		{[]string{private, three}, 1000, 1_000_000},
		{[]string{private, redis}, 1000, 1_000_000},
	} {
		t.Run(strings.Join(tt.kinds, " and "), func(t *testing.T) {
			t.Parallel()
			needKinds(t, tt.kinds...)
			lives := max(tt.short/racetest.Factor, stepsOfLife) / stepsOfLife
			if testing.Short() {
				lives = max(lives/4, 1)
			}
			if os.Getenv("RATELIMIT_LONG") != "" {
				lives = tt.long / stepsOfLife
			}
			met := make(map[string]int)
			for seed := range uint64(lives) {
				if seed += *firstSeed; *oneSeed >= 0 {
					seed = uint64(*oneSeed)
				}
				out := live(t, seed, tt.kinds, stepsOfLife, func(int) bool { return false })
				if out.failure != "" {
					tellOf(t, seed, tt.kinds, out)
					return
				}
				for what, n := range out.met {
					met[what] += n
				}
				if *oneSeed >= 0 {
					break
				}
			}
			t.Logf("%d lives as of seed %d %s", lives, *firstSeed, summary(met))
		})
	}
}

// needKinds skips a test of kinds of limiters that are not there: one over a file needs SQLite.
func needKinds(t *testing.T, kinds ...string) {
	t.Helper()
	if !shares && !slices.Equal(kinds, []string{private}) {
		t.Skip("no quotas are shared yet")
	}
	if !sqlitestate.Enabled && slices.Contains(kinds, file) {
		t.Skip("built without SQLite")
	}
	if slices.Contains(kinds, redis) {
		if *redisAt == "" {
			t.Skip("TestLives of redisstore runs it")
		}
		remote() // outside of the bubbles
	}
}

func summary(met map[string]int) string {
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(met)) {
		lines = append(lines, fmt.Sprintf("%s %d", what, met[what]))
	}
	return "met " + strings.Join(lines, ", ")
}

// tellOf tells of a life that failed, as short as it gets by leaving steps out.
func tellOf(t *testing.T, seed uint64, kinds []string, out outcome) {
	out = shrink(t, seed, kinds, out)
	for _, line := range out.log[max(0, len(out.log)-60):] {
		t.Log(line)
	}
	t.Logf("the world: %s", out.world)
	t.Errorf("seed %d: %s", seed, out.failure)
}

// shrink leaves out all steps that a failure does not need.
func shrink(t *testing.T, seed uint64, kinds []string, out outcome) outcome {
	left := make(map[int]bool) // out
	runs := 0
	for size := max(out.step/2, 1); size > 0; size /= 2 {
		for from := 0; from < out.step && runs < 150; from += size {
			without := maps.Clone(left)
			for step := from; step < min(from+size, out.step); step++ {
				without[step] = true
			}
			if len(without) == len(left) {
				continue
			}
			runs++
			if is := live(t, seed, kinds, out.step+1, func(step int) bool { return without[step] }); is.failure != "" {
				out, left = is, without
			}
		}
	}
	return out
}
