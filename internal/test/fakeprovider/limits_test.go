package fakeprovider

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask sends a chat completion to a handler, without a network.
func ask(h http.Handler, model, prompt string, maxTokens int) *httptest.ResponseRecorder {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_completion_tokens":%d}`, model, prompt, maxTokens)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
	return w
}

// What is refused is what an oracle refuses that knows all that came before, and adds
// it up anew each time.
func TestEnforcement(t *testing.T) {
	oracles := map[Enforcement]func(before []Arrival, d Dimension, limit int, now Arrival) bool{
		SlidingWindow: func(before []Arrival, d Dimension, limit int, now Arrival) bool {
			sum := now.Charge[d]
			for _, b := range before {
				if !b.Refused && now.Time.Sub(b.Time) < time.Minute {
					sum += b.Charge[d]
				}
			}
			return sum <= limit
		},
		TokenBucket: func(before []Arrival, d Dimension, limit int, now Arrival) bool {
			full := big.NewRat(int64(limit), 1)
			level, at := new(big.Rat).Set(full), now.Time
			if len(before) > 0 {
				at = before[0].Time
			}
			refill := func(to time.Time) {
				level.Add(level, big.NewRat(int64(to.Sub(at)), int64(time.Minute/time.Duration(limit))))
				if rest := int64(time.Minute) % int64(limit); rest != 0 {
					panic("choose a limit that divides a minute")
				}
				if at = to; level.Cmp(full) > 0 {
					level.Set(full)
				}
			}
			for _, b := range before {
				refill(b.Time)
				if !b.Refused {
					level.Sub(level, big.NewRat(int64(b.Charge[d]), 1))
				}
			}
			refill(now.Time)
			return level.Cmp(big.NewRat(int64(now.Charge[d]), 1)) >= 0
		},
	}
	for enforcement, fits := range oracles {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(enforcement, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limits := Limits{RPM: 15, TPM: 2000, OTPM: 1000}
					s := New(Options{Seed: seed}, map[string]Config{"m": {Limits: limits, Enforcement: enforcement}})
					r := rand.New(rand.NewPCG(seed, 1))
					for i := range 200 {
						// Small calls, long prompts, long answers: each has a limit of its own.
						most := [][2]int{{20, 20}, {600, 20}, {20, 600}}[i*3/200]
						ask(s, "m", strings.Repeat("word", 1+r.IntN(most[0])), 1+r.IntN(most[1]))
						// Often just where a window ends.
						time.Sleep([]time.Duration{0, time.Second, 3 * time.Second, time.Duration(r.Int64N(int64(8 * time.Second)))}[r.IntN(4)])
					}
					arrivals := s.Arrivals("m")
					over := [Dimensions]int{}
					for i, a := range arrivals {
						refused := false
						for d, limit := range limits {
							if limit > 0 && !fits(arrivals[:i], Dimension(d), limit, a) {
								over[d]++
								refused = true
							}
						}
						if refused != a.Refused {
							t.Fatalf("request %d: refused %v, want %v", i, a.Refused, refused)
						}
					}
					stats := s.Stats("m")
					if stats.Over != over || stats.InFlight != 0 || stats.Requests != 200 || stats.Refused == 0 || over[RPM] == 0 || over[TPM] == 0 || over[OTPM] == 0 {
						t.Errorf("over %v, want %v; %+v", stats.Over, over, stats)
					}
				})
			})
		}
	}
}

// A request that waits for as long as a meter says fits, and a nanosecond sooner does not.
func TestWait(t *testing.T) {
	start := time.Now()
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range []meter{&window{limit: 1000, length: time.Minute}, &bucket{limit: 1000}, &bucket{limit: 7}, &bucket{limit: maxLimit}} {
		limit := 1000
		if b, is := m.(*bucket); is {
			limit = b.limit
		}
		now, waited := start, 0
		for range 2000 {
			n := 1 + r.IntN(limit)
			wait, ever := m.wait(now, n)
			if !ever {
				t.Fatal("never")
			}
			if wait > 0 {
				waited++
				if m.fits(now.Add(wait-1), n) {
					t.Fatalf("%T: %d fits sooner than after %v", m, n, wait)
				}
			}
			now = now.Add(wait)
			if !m.fits(now, n) {
				t.Fatalf("%T: %d does not fit after %v", m, n, wait)
			}
			m.add(now, n)
			now = now.Add(time.Duration(r.Int64N(int64(time.Second))))
		}
		if _, ever := m.wait(now, limit+1); ever || waited == 0 {
			t.Errorf("%T: waited %d times; more than the limit ever fits: %v", m, waited, ever)
		}
		if got := untilFull(m, limit, now); m.used(now) == 0 || m.used(now.Add(got)) != 0 {
			t.Errorf("%T: not full after %v", m, got)
		}
	}
}

func TestCharge(t *testing.T) {
	used := Usage{Prompt: 1000, CacheRead: 300, CacheWrite: 200, Output: 50, Thoughts: 20}
	for _, test := range []struct {
		name          string
		dialect       Dialect
		headers       Headers
		count         Count
		tpm, itpm, ot int
	}{
		{"OpenAI", OpenAI, OpenAIHeaders, CountUsage, 1050, 1000, 50},
		{"OpenAI by its rule", OpenAI, OpenAIHeaders, CountAdmission, 4000, 1000, 50},
		{"Azure by its rule", OpenAI, AzureHeaders, CountAdmission, 4501, 1000, 50},
		{"Groq: cached tokens are free", OpenAI, GroqHeaders, CountUsage, 750, 700, 50},
		{"Anthropic: reads of the cache are free", Anthropic, 0, CountUsage, 750, 700, 50},
		{"Gemini: input alone", Gemini, 0, CountUsage, 1000, 1000, 50},
		{"Ollama", Ollama, 0, CountUsage, 1050, 1000, 50},
	} {
		call := &Call{Dialect: test.dialect, MaxOutput: 4000, Characters: 2001}
		got := charge(test.count, test.headers, call, &Answer{Usage: used})
		want := [Dimensions]int{RPM: 1, RPD: 1, InFlight: 1, TPM: test.tpm, ITPM: test.itpm, OTPM: test.ot}
		if got != want {
			t.Errorf("%s: %v, want %v", test.name, got, want)
		}
	}
	call := &Call{MaxOutput: 40, Characters: 2001}
	if got := charge(CountAdmission, 0, call, &Answer{Status: 500, Usage: used}); got[TPM] != 501 || got[RPM] != 1 {
		t.Errorf("a failure, by the rule of OpenAI: %v", got)
	}
	if got := charge(CountUsage, 0, call, &Answer{Status: 500, Usage: used}); got[TPM] != 0 || got[RPM] != 1 {
		t.Errorf("a failure: %v", got)
	}
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Answer: func(*Call) Answer { return Answer{Delay: time.Second} }}, map[string]Config{"": {Limits: Limits{InFlight: 2}}})
		codes := make(chan int, 3)
		for range 3 {
			go func() { codes <- ask(s, "any", "Hi", 10).Code }()
		}
		if a, b, c := <-codes, <-codes, <-codes; a != 429 || b != 200 || c != 200 {
			t.Errorf("%d, %d, %d", a, b, c)
		}
		if ask(s, "any", "Hi", 10).Code != 200 || ask(s, "other", "Hi", 10).Code != 200 {
			t.Error("no room when all are over")
		}
		if got := s.Stats("any"); got.Most != 2 || got.InFlight != 0 || got.Over[InFlight] != 1 || got.Used.Prompt != 3 {
			t.Errorf("%+v", got)
		}
	})
}

// The same requests are answered the same, in whatever order they come.
func TestSeed(t *testing.T) {
	answers := func(seed uint64, order ...string) map[string]bool {
		s := New(Options{Seed: seed}, map[string]Config{"m": {}})
		got := make(map[string]bool)
		for _, prompt := range order {
			got[prompt+ask(s, "m", prompt, 1000).Body.String()] = true
		}
		return got
	}
	first := answers(1, "a", "b", "b", "c")
	if len(first) != 4 {
		t.Errorf("equal requests have equal answers: %d", len(first))
	}
	again := answers(1, "b", "c", "a", "b")
	for answer := range first {
		if !again[answer] {
			t.Errorf("the order changes an answer: %s", answer)
		}
	}
	for answer := range answers(2, "a", "b", "b", "c") {
		if first[answer] {
			t.Error("the seed changes nothing")
		}
	}
}
