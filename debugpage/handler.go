package debugpage

import (
	"crypto/rand"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit"
)

// Handler returns the page of a limiter. It answers GET and HEAD at any path, and everything else
// with status 405. It goes on after the limiter is closed. Handler panics if rl is nil. The handler
// is safe for concurrent use.
func Handler(rl *ratelimit.RateLimiter) http.Handler {
	if rl == nil {
		panic("debugpage: the limiter is nil")
	}
	return &handler{rl: rl, board: newBoard(rl), epoch: rand.Text()}
}

type handler struct {
	rl    *ratelimit.RateLimiter
	board *board
	epoch string // tells versions of this handler from those of another run of the program

	streams   streamCount
	shutdowns shutdowns
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Add("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read-only: use GET", http.StatusMethodNotAllowed)
		return
	}
	switch form, err := formOf(r); {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case form == formStream:
		h.serveStream(w, r)
	case form == formJSON:
		h.serveJSON(w, r)
	default:
		h.servePage(w, r)
	}
}

// version is a version of the board as the page knows it.
func (h *handler) version(s *snapshot) string { return h.epoch + "." + formatVersion(s.version) }

// seen returns the version that a page says it has; 0 if it is of another run.
func (h *handler) seen(text string) uint64 {
	epoch, version, _ := strings.Cut(text, ".")
	if epoch != h.epoch {
		return 0
	}
	return parseVersion(version)
}
