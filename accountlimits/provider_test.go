package accountlimits_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// adminKey is the key that no error may hold.
const adminKey = "sk-admin-0123456789_abcdefghijklmnopqrstu"

// provider answers the requests for limits as Anthropic, OpenAI and OpenRouter do. It speaks their
// formats from their documentation, and refuses what they would refuse.
type provider struct {
	// pageSize is how many entries Anthropic puts on a page; 0 for all.
	pageSize int
	// organization and workspace are groups of Anthropic's, as JSON.
	organization, workspace []string
	// project is the entries of OpenAI's, as JSON objects without id and object.
	project []string
	// free is the free calls of a day at OpenRouter, as JSON.
	free string

	mu    sync.Mutex
	asked []string // paths with their queries
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.URL.RequestURI())
	p.mu.Unlock()
	if r.Method != http.MethodGet || r.ContentLength > 0 {
		http.Error(w, `{"error":{"message":"method"}}`, http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/v1/organizations/rate_limits":
		p.serveAnthropic(w, r, p.organization)
	case "/v1/organizations/workspaces/wrkspc_1/rate_limits":
		p.serveAnthropic(w, r, p.workspace)
	case "/v1/organization/projects/proj_1/rate_limits":
		p.serveOpenAI(w, r)
	case "/api/v1/key":
		p.serveOpenRouter(w, r)
	default:
		http.Error(w, `{"error":{"message":"no such resource"}}`, http.StatusNotFound)
	}
}

func (p *provider) serveAnthropic(w http.ResponseWriter, r *http.Request, groups []string) {
	if r.Header.Get("x-api-key") != adminKey || r.Header.Get("anthropic-version") != "2023-06-01" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
		return
	}
	start := 0
	if page := r.URL.Query().Get("page"); page != "" {
		start, _ = strconv.Atoi(strings.TrimPrefix(page, "page+/="))
	}
	end, next := len(groups), "null"
	if p.pageSize > 0 && start+p.pageSize < end {
		end = start + p.pageSize
		next = fmt.Sprintf("%q", "page+/="+strconv.Itoa(end))
	}
	fmt.Fprintf(w, `{"data":[%s],"next_page":%s}`, strings.Join(groups[start:end], ","), next)
}

func (p *provider) serveOpenRouter(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+adminKey {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"code":401,"message":"User not found."}}`)
		return
	}
	fmt.Fprintf(w, `{"data":{"label":"sk-or-v1-au7...890","limit":100,"limit_remaining":74.5,"limit_reset":"monthly","usage":25.5,`+
		`"is_free_tier":false,"rate_limit":{"requests":-1,"interval":"10s","note":"deprecated"},"free_model_daily_requests":%s}}`, p.free)
}

func (p *provider) serveOpenAI(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+adminKey {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s.","type":"invalid_request_error"}}`,
			strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		return
	}
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		limit = 100
	}
	type entry map[string]any
	entries := make([]entry, len(p.project))
	for i, text := range p.project {
		if err := json.Unmarshal([]byte(text), &entries[i]); err != nil {
			panic(err)
		}
		entries[i]["object"], entries[i]["id"] = "project.rate_limit", fmt.Sprint("rl-", i)
	}
	if after := query.Get("after"); after != "" {
		entries = entries[slices.IndexFunc(entries, func(e entry) bool { return e["id"] == after })+1:]
	}
	reply := map[string]any{"object": "list", "has_more": len(entries) > limit}
	entries = entries[:min(limit, len(entries))]
	if reply["data"] = entries; len(entries) > 0 {
		reply["first_id"], reply["last_id"] = entries[0]["id"], entries[len(entries)-1]["id"]
	}
	json.NewEncoder(w).Encode(reply)
}
