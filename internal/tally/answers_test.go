package tally

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

const most = 10

func count(input, output int) state.Count { return state.Count{Input: input, Output: output} }

func TestObserve(t *testing.T) {
	type answer struct{ estimated, used state.Count }
	tests := []struct {
		name    string
		answers []answer
		want    Lesson
	}{
		{"nothing", nil, Lesson{}},
		{"unknown use", []answer{{count(10, 10), count(0, 0)}, {count(10, 10), count(-1, -1)}}, Lesson{}},
		{"the first correction counts in full", []answer{{count(100, 0), count(200, 8)}}, Lesson{1, 10, 2000, 500, 500}},
		{"then it is the mean and the mean deviation", []answer{{count(100, 0), count(200, 8)}, {count(100, 0), count(100, 4)}}, Lesson{2, 10, 2000, 500, 500}},
		{"an unknown prompt corrects nothing", []answer{{count(100, 0), count(0, 100)}}, Lesson{1, 125, 0, 0, 0}},
		{"an unknown estimate corrects nothing", []answer{{count(0, 0), count(100, 100)}}, Lesson{1, 125, 0, 0, 0}},
		{"no output is learned, too", []answer{{count(100, 0), count(100, 0)}}, Lesson{1, 0, 1000, 0, 0}},
		{"a correction has bounds", []answer{{count(1000, 0), count(1, 0)}}, Lesson{1, 0, 250, 999000, 999000}},
		{"on both sides", []answer{{count(1, 0), count(1000, 0)}}, Lesson{1, 0, 4000, 999, 999}},
		{"absurd counts are not learned", []answer{{count(1, 0), count(math.MaxInt, math.MaxInt)}}, Lesson{1, 0, 0, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b Answers
			for _, a := range tt.answers {
				b.Observe("m", a.estimated, a.used, most)
			}
			if got := b.Estimate("m"); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// A minute of calls is not estimated too low, and not by much too high, however the prompts differ.
func TestCorrectionLeansUpwards(t *testing.T) {
	for _, spread := range []int{0, 30, 100, 300} { // permille about the mean
		var b Answers
		random := rand.New(rand.NewPCG(1, 0))
		estimated, used := 0, 0
		for i := range 1000 {
			n := 200 + random.IntN(400)
			real := n * (900 - spread + random.IntN(2*spread+1)) / 1000
			if i >= 10 {
				estimated += Correct(n, b.Estimate("m").Correction)
				used += real
			}
			b.Observe("m", count(n, 0), count(real, 1), most)
		}
		if most := used + used*(10+spread)/1000; estimated < used || estimated > most {
			t.Errorf("prompts within %d permille: estimated at %d, used %d", spread, estimated, used)
		}
	}
}

func TestCorrect(t *testing.T) {
	tests := []struct{ estimated, permille, want int }{
		{100, 0, 100}, {100, 1000, 100}, {100, 1500, 150}, {1, 250, 1}, {3, 1001, 4}, {0, 2000, 0}, {-1, 2000, -1},
		{math.MaxInt32, 4000, math.MaxInt32}, {math.MaxInt, 4000, math.MaxInt},
	}
	for _, tt := range tests {
		if got := Correct(tt.estimated, tt.permille); got != tt.want {
			t.Errorf("Correct(%d, %d) = %d, want %d", tt.estimated, tt.permille, got, tt.want)
		}
	}
}

// An outlier is forgotten after two generations at most.
func TestOutputFollowsPeaks(t *testing.T) {
	var b Answers
	b.Observe("m", state.Count{}, count(0, 1000), most)
	for n := 1; n <= 2*state.AnswersPerGeneration; n++ {
		want := 1250
		if n >= 2*state.AnswersPerGeneration {
			want = 10
		}
		if got := b.Observe("m", state.Count{}, count(0, 8), most); got != n+1 {
			t.Fatalf("%d answers are seen, want %d", got, n+1)
		}
		if got := b.Estimate("m").Output; n != 2*state.AnswersPerGeneration-1 && got != want {
			t.Fatalf("after %d answers the output is %d, want %d", n, got, want)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	var b Answers
	for i := range 100 {
		b.Observe("kept", count(1, 1), count(1, 1), 3)
		b.Observe(fmt.Sprint(i), count(1, 1), count(1, 1), 3)
	}
	if names := slices.Sorted(maps.Keys(b.All())); !slices.Equal(names, []string{"98", "99", "kept"}) {
		t.Errorf("it knows %v", names)
	}
}

func TestMerge(t *testing.T) {
	var a, b Answers
	for range 3 {
		a.Observe("m", count(100, 0), count(200, 50), most)
	}
	b.Observe("m", count(100, 0), count(100, 400), most)
	b.Observe("other", count(100, 0), count(300, 1), most)
	before := a.Estimate("m")
	a.Merge(b.All(), most)
	want := before
	want.Output = 500
	if got := a.Estimate("m"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if a.Estimate("other") != b.Estimate("other") {
		t.Errorf("%+v of the other", a.Estimate("other"))
	}
	b.Merge(a.All(), most)
	if got := b.Estimate("m"); got != want {
		t.Errorf("the other way it is %+v, want %+v", got, want)
	}
	all := a.All()
	if a.Merge(all, most); !maps.EqualFunc(a.All(), all, func(x, y state.Answers) bool {
		return state.AnswersText(x) == state.AnswersText(y)
	}) {
		t.Error("what is known already changes something")
	}
}

// The oracle keeps every answer.
func TestAnswersAgreeWithOracle(t *testing.T) {
	for seed := range uint64(max(10, 50/racetest.Factor)) {
		random := rand.New(rand.NewPCG(seed, 1))
		var b Answers
		var outputs, ratios, errors []int
		mean, deviation, correction, answered := 0, 0, 0, 0
		for range 300 {
			estimated, used := count(random.IntN(1000), 0), count(random.IntN(3000)-50, random.IntN(500)-20)
			b.Observe("m", estimated, used, most)
			if max(used.Input, used.Output) <= 0 {
				continue
			}
			answered++
			outputs = append(outputs, max(used.Output, 0))
			if estimated.Input > 0 && used.Input > 0 {
				wrong := used.Input - Correct(estimated.Input, correction)
				errors = append(errors, max(wrong, -wrong)*1000/used.Input)
				ratio := min(max(used.Input*1000/estimated.Input, 250), 4000)
				ratios = append(ratios, ratio)
				off, weight := ratio-mean, min(len(ratios), 8)
				mean += off / weight
				if len(ratios) > 1 {
					deviation += (max(off, -off) - deviation) / weight
				}
				correction = min(mean+deviation, 4000)
			}
			first := max((len(outputs)/32-1)*32, 0)
			want := Lesson{Answers: answered, Correction: correction}
			if peak := slices.Max(append([]int{0}, outputs[first:]...)); peak > 0 {
				want.Output = peak + peak/4
			}
			if last := slices.Clone(errors[max(len(errors)-64, 0):]); len(last) > 0 {
				slices.Sort(last)
				want.ErrorP50, want.ErrorP95 = last[(len(last)-1)*50/100], last[(len(last)-1)*95/100]
			}
			if got := b.Estimate("m"); got != want {
				t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
			}
			stored, _ := b.Of("m")
			if err := stored.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var other Answers
			again, err := state.ParseAnswers(state.AnswersText(stored))
			if other.Merge(map[string]state.Answers{"m": again}, most); err != nil || other.Estimate("m") != want {
				t.Fatalf("seed %d: stored and read it is %+v, %v", seed, other.Estimate("m"), err)
			}
		}
	}
}

func FuzzParseAnswers(f *testing.F) {
	f.Add(`{"count":3,"prompts":2,"correction":1500,"peak":9,"errors":[1,2]}`)
	f.Add(`{"prompts":1}`)
	f.Add(`{"errors":[-1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := state.ParseAnswers(text)
		if err != nil {
			return
		}
		var b Answers
		b.Merge(map[string]state.Answers{"m": a}, most)
		b.Observe("m", count(10, 0), count(20, 30), most)
		if after, _ := b.Of("m"); after.Check() != nil {
			t.Errorf("%+v becomes %+v", a, after)
		}
	})
}
