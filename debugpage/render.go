package debugpage

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	templates = template.Must(template.New("debugpage").Parse(pageHTML))
)

// render executes a template of page.html. What could fail is seen by any test that executes it.
func render(name string, data any) string {
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		panic(fmt.Sprintf("debugpage: template %s: %v", name, err))
	}
	return text.String()
}

// maxFirst is how many blocked models are named above the rows, and maxWarnings how many warnings
// stand there.
const maxFirst, maxWarnings = 8, 6

// renderAbove returns what stands above the rows.
func renderAbove(c *content, n notice) string {
	var blocked, open, waiting int
	var first []modelName
	for _, r := range c.rows {
		open += r.explained.InFlight
		waiting += r.explained.Waiting
		if isBlocked(&r.explained) {
			blocked++
		}
	}
	for _, r := range c.active {
		if len(first) < maxFirst && isBlocked(&r.explained) {
			first = append(first, modelName{rowID(r), nameText(r.explained.Model)})
		}
	}
	var more, hidden, moreWarnings string
	if rest := len(n.warnings) - maxWarnings; rest > 0 {
		n.warnings, moreWarnings = n.warnings[:maxWarnings], counted(rest, "warning")
	}
	if rest := blocked - len(first); rest > 0 {
		more = number(rest)
	}
	if rest := len(c.rows) - len(c.active) - len(c.idle); rest > 0 {
		hidden = counted(rest, "model")
	}
	pools, full := "", 0
	for i := range c.pools {
		if c.pools[i].blocked() {
			full++
		}
	}
	if full > 0 {
		pools = number(full) + " of " + counted(len(c.pools), "pool") + " blocked"
	}
	return render("above", map[string]any{
		"Pools":      pools,
		"StoreError": n.storeError, "Warnings": n.warnings, "MoreWarnings": moreWarnings,
		"Blocked": number(blocked), "Models": counted(len(c.rows), "model"),
		"First": first, "More": more, "Open": counted(open, "open call"), "Waiting": number(waiting), "Hidden": hidden,
	})
}

type modelName struct{ ID, Name string }

// html returns the row as HTML, as it was at its moment.
func (r *row) html() string {
	r.once.Do(func() {
		name := "idle"
		if r.active {
			name = "active"
		}
		r.text = render(name, viewOf(r, r.explained.At))
	})
	return r.text
}

// servePage answers with the whole page, seen from now.
func (h *handler) servePage(w http.ResponseWriter, r *http.Request) {
	nonce := rand.Text()
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	if r.Method == http.MethodHead {
		return
	}
	s, err := h.board.look(r.Context())
	if err != nil {
		return // the client is gone
	}
	now := time.Now()
	views := func(rows []*row) []modelView {
		all := make([]modelView, len(rows))
		for i, r := range rows {
			all[i] = viewOf(r, now)
		}
		return all
	}
	query := r.URL.Query() // may have what lets the request in
	query.Set("format", "json")
	var text bytes.Buffer
	err = templates.ExecuteTemplate(&text, "page", map[string]any{
		"Nonce": nonce, "Style": template.CSS(pageCSS), "Script": template.JS(pageJS),
		"Version": h.version(s), "At": moment{now, now}, "Milliseconds": now.UnixMilli(), "Clock": clock(now), "JSON": "?" + query.Encode(),
		"Above": template.HTML(s.above), "Pools": template.HTML(renderPools(s.pools, now)), "Active": views(s.active), "Idle": views(s.idle), "Idles": counted(len(s.idle), "idle model"),
	})
	if err != nil {
		panic(fmt.Sprintf("debugpage: template page: %v", err))
	}
	w.Write(text.Bytes())
}

func clock(now time.Time) string { return now.UTC().Format("2006-01-02 15:04:05 UTC") }

// news is what a page learns of a snapshot: what has changed since the version that it has. page.js
// reads it.
type news struct {
	At     int64    `json:"at"` // milliseconds since 1970
	Clock  string   `json:"clock"`
	Rows   [][2]any `json:"rows,omitempty"` // ids and HTML
	Active *[]int64 `json:"active,omitempty"`
	Idle   *[]int64 `json:"idle,omitempty"`
	Above  *string  `json:"above,omitempty"`
	Pools  *string  `json:"pools,omitempty"`
}

// newsOf returns the news of a snapshot as JSON.
func newsOf(s *snapshot, seen uint64) []byte {
	if seen == s.previous {
		s.delta.once.Do(func() { s.delta.text = encodeNews(s, seen) })
		return s.delta.text
	}
	return encodeNews(s, seen)
}

func encodeNews(s *snapshot, seen uint64) []byte {
	defer s.spent(time.Now())
	n := news{At: s.at.UnixMilli(), Clock: clock(s.at)}
	if seen < s.version {
		for r := range s.changed(seen) {
			n.Rows = append(n.Rows, [2]any{r.id, r.html()})
		}
	}
	if s.activeVersion > seen {
		n.Active = idsOf(s.active)
	}
	if s.idleVersion > seen {
		n.Idle = idsOf(s.idle)
	}
	if s.aboveVersion > seen {
		n.Above = &s.above
	}
	if s.poolsVersion > seen {
		text := renderPools(s.pools, s.at)
		n.Pools = &text
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(n); err != nil {
		panic(fmt.Sprintf("debugpage: encode news: %v", err))
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

func idsOf(rows []*row) *[]int64 {
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = int64(r.id)
	}
	return &ids
}
