package debounce_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

// run is one run of an action.
type run struct {
	at    time.Duration
	value int
}

// vector is a script of events, and what lodash does with it; times are in
// milliseconds.
type vector struct {
	Wait int
	Opts struct {
		Leading, Trailing bool
		MaxWait           int
	}
	Events []event
	Want   [][2]int
}

type event struct {
	at    int
	op    string
	value int
}

func (e *event) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&e.at, &e.op, &e.value})
}

func readVectors(t testing.TB) (vectors []vector) {
	file, err := os.Open("testdata/debounce_vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return vectors
}

// Every run is at the instant, and with the value, of lodash's.
func TestDebouncerFollowsLodash(t *testing.T) {
	vectors := readVectors(t)
	if len(vectors) != 1000 {
		t.Fatalf("%d vectors, want 1000", len(vectors))
	}
	for i, v := range vectors {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var got []run
			d := debounce.New(debounce.Options{
				Delay:    time.Duration(v.Wait) * time.Millisecond,
				MaxWait:  time.Duration(v.Opts.MaxWait) * time.Millisecond,
				Leading:  v.Opts.Leading,
				Trailing: v.Opts.Trailing,
			}, func(value int) { got = append(got, run{time.Since(start), value}) })
			for _, e := range v.Events {
				time.Sleep(time.Duration(e.at)*time.Millisecond - time.Since(start))
				switch e.op {
				case "call":
					d.Trigger(e.value)
				case "flush":
					d.Flush()
				case "cancel":
					d.Cancel()
				default:
					t.Fatalf("vector %d: unknown event %q", i, e.op)
				}
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			var want []run
			for _, w := range v.Want {
				want = append(want, run{time.Duration(w[0]) * time.Millisecond, w[1]})
			}
			if !slices.Equal(got, want) {
				t.Errorf("vector %d: wait %d, %+v\ngot  %v\nwant %v", i, v.Wait, v.Opts, got, want)
			}
		})
	}
}
