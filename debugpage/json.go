package debugpage

import (
	"bufio"
	"encoding/json"
	"net/http"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// serveJSON answers with the explanations of all models and pools as they are now. It writes one
// at a time, so many need little memory.
func (h *handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	n := noticeOf(h.rl)
	writeJSON(out, `{"at":`, time.Now())
	if n.storeError != "" {
		writeJSON(out, `,"store_error":`, n.storeError)
	}
	if len(n.warnings) > 0 {
		writeJSON(out, `,"warnings":`, n.warnings)
	}
	before := `,"models":[`
	for model := range h.rl.Models() {
		if r.Context().Err() != nil {
			return
		}
		writeJSON(out, before, h.rl.Explain(model))
		before = ","
	}
	if before != "," {
		out.WriteString(before)
	}
	before = `],"pools":[`
	for name := range h.rl.Pools() {
		if is, ok := h.rl.ExplainPool(name); ok {
			writeJSON(out, before, is)
			before = ","
		}
	}
	out.WriteString("]}\n")
}

// writeJSON writes a value behind a text. The types of its callers cannot fail to encode, and a
// bufio.Writer keeps its first error.
func writeJSON[V time.Time | string | []string | ratelimit.Explanation | ratelimit.PoolState](out *bufio.Writer, before string, value V) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("null") // a time of a year beyond 9999
	}
	out.WriteString(before)
	out.Write(text)
}
