// Names, state and clients that are odd.

package debugpage_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

// The name of one model, which a caller may have invented, does not fill the page.
func TestHugeNames(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}, "known": {MaxRPM: 1}})
	huge := strings.Repeat("<b>&\xff", 100_000)
	for range 200 {
		rl.Reserve(huge, 1, 1)
	}
	h := debugpage.Handler(rl)
	page := get(h, "/").Body.String()
	if len(page) > 100_000 {
		t.Errorf("the page has %d bytes, of which one name of a caller is nearly all", len(page))
	}
	if strings.Contains(page, "<b>&\xff") {
		t.Error("injected")
	}
	object := get(h, "/?format=json").Body.Bytes()
	if !json.Valid(object) {
		t.Error("JSON")
	}
}

// Whatever a program has put into State and Quotas, there is a page of it.
func TestHostileState(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}})
	rl.State["nil"] = nil
	rl.State["odd"] = &ratelimit.UsageStats{DayCount: -5, DayTokens: -7, Requests: make([]time.Time, 3)}
	rl.Quotas["neg"] = ratelimit.ModelQuota{MaxRPM: -1, MaxTPM: -5, MaxInFlight: -3, Burst: -4}
	rl.Quotas["zone"] = ratelimit.ModelQuota{MaxRPD: 1, DayZone: "No/Zone"}
	rl.Quotas["big"] = ratelimit.ModelQuota{MaxTPM: math.MaxInt / 2, MaxTPD: math.MaxInt}
	rl.RecordUsage("big", math.MaxInt/2, math.MaxInt/2)
	rl.RecordUsage("big", math.MaxInt/2, math.MaxInt/2)
	rl.Cooldown("m", time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC))
	h := debugpage.Handler(rl)
	for range 2 {
		page := get(h, "/")
		if page.Code != 200 || !strings.Contains(page.Body.String(), "</html>") {
			t.Error(page.Code)
		}
		object := get(h, "/?format=json").Body.Bytes()
		if !json.Valid(object) {
			t.Errorf("JSON %s", object)
		}
		if strings.Contains(string(object), "null") {
			t.Errorf("null in %s", object)
		}
		for model := range rl.Models() {
			_ = rl.Explain(model).String()
		}
		rl.Health()
		rl.Close()
	}
	var zero ratelimit.RateLimiter
	z := debugpage.Handler(&zero)
	if w := get(z, "/"); w.Code != 200 {
		t.Error(w.Code)
	}
	zero.Explain("x")
	zero.Health()
}

// A client of HTTP/1.0 gets updates, too.
func TestHTTP10(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}})
	server := httptest.NewServer(debugpage.Handler(rl))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /?stream HTTP/1.0\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(time.Minute)) // on a busy machine
	lines := bufio.NewReader(conn)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			break
		}
	}
	rl.RecordUsage("m", 1, 1)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			break
		}
	}
}
