package debugpage_test

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
)

// newLimiter returns a limiter with quotas and nothing else.
func newLimiter(t testing.TB, quotas map[string]ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "state.yaml"), Quotas: quotas})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// get asks for something. Header fields are pairs of a name and a value.
func get(h http.Handler, target string, fields ...string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, target, fields...)
}

func ask(h http.Handler, method, target string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// news is an event as page.js gets it.
type news struct {
	id     string
	At     int64
	Clock  string
	Rows   []newsRow
	Active []int
	Idle   []int
	Above  *string
	Pools  *string
}

type newsRow struct {
	id   int
	html string
}

func (r *newsRow) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&r.id, &r.html})
}

// watching is a viewer in a bubble.
type watching struct {
	t      *testing.T
	mu     sync.Mutex
	w      *httptest.ResponseRecorder
	read   int // events
	leave  context.CancelFunc
	ended  chan struct{}
	block  chan struct{} // writes wait for its end, if it is not nil
	writes int
}

// watch starts a stream, which goes on until leave is called.
func watch(t *testing.T, h http.Handler, target string, fields ...string) *watching {
	t.Helper()
	v := &watching{t: t, w: httptest.NewRecorder(), ended: make(chan struct{})}
	v.start(h, target, fields...)
	return v
}

func (v *watching) start(h http.Handler, target string, fields ...string) {
	ctx, leave := context.WithCancel(v.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	go func() {
		defer close(v.ended)
		h.ServeHTTP(v, r)
	}()
	v.leave = func() {
		leave()
		<-v.ended
	}
}

func (v *watching) Header() http.Header { return v.w.Header() }
func (v *watching) WriteHeader(c int)   { v.w.WriteHeader(c) }
func (v *watching) Flush()              { v.w.Flush() }
func (v *watching) Write(p []byte) (int, error) {
	if v.block != nil {
		<-v.block
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.writes++
	return v.w.Write(p)
}

// events returns what has come since the last call.
func (v *watching) events() (all []news) {
	v.t.Helper()
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	blocks := strings.Split(v.w.Body.String(), "\n\n")
	blocks = blocks[:len(blocks)-1]
	for _, block := range blocks[v.read:] {
		id, data, ok := strings.Cut(block, "\ndata: ")
		if !ok || !strings.HasPrefix(id, "id: ") || strings.Contains(data, "\n") {
			v.t.Fatalf("event %q", block)
		}
		n := news{id: strings.TrimPrefix(id, "id: ")}
		if err := json.Unmarshal([]byte(data), &n); err != nil {
			v.t.Fatalf("event %q: %v", block, err)
		}
		all = append(all, n)
	}
	v.read = len(blocks)
	return all
}

// event returns the only event that has come since the last call.
func (v *watching) event() news {
	v.t.Helper()
	all := v.events()
	if len(all) != 1 {
		v.t.Fatalf("%d events, want 1", len(all))
	}
	return all[0]
}

// names returns which of the models the rows of an event show.
func (n *news) names(models ...string) (found []string) {
	for _, r := range n.Rows {
		for _, model := range models {
			if strings.Contains(r.html, `<span class="name">`+model+`</span>`) && strings.Contains(r.html, `id="m`+strconv.Itoa(r.id)+`"`) {
				found = append(found, model)
			}
		}
	}
	return found
}

// TestMain has limiters without a FilePath make their folder elsewhere than in the user's home.
func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "debugpage")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("CORE_HOME", home)
	status := m.Run()
	os.RemoveAll(home)
	os.Exit(status)
}
