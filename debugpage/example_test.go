package debugpage_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

// The page belongs on the port of net/http/pprof, not on that of the users.
func ExampleHandler() {
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"gpt-6-sol": {MaxRPM: 500, MaxTPM: 200_000}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	admin := http.NewServeMux()
	admin.Handle("/debug/ratelimit", debugpage.Handler(limiter))
	server := httptest.NewServer(admin) // http.ListenAndServe("localhost:6060", admin)
	defer server.Close()

	resp, err := http.Get(server.URL + "/debug/ratelimit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, resp.Header.Get("Content-Type"))
	// Output:
	// 200 text/html; charset=utf-8
}

// A program reads the same as JSON.
func ExampleHandler_json() {
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"gpt-6-sol": {MaxRPM: 500, MaxTPM: 200_000}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	call, _ := limiter.Reserve("gpt-6-sol", 1_000, 500)
	defer call.Cancel()

	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/debug/ratelimit", nil)
	r.Header.Set("Accept", "application/json")
	debugpage.Handler(limiter).ServeHTTP(w, r)
	var page struct {
		Models []ratelimit.Explanation `json:"models"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range page.Models {
		fmt.Println(model.Model, model.InFlight, "open", model.Next.Code)
		for _, limit := range model.Limits {
			fmt.Println(limit.Limit, limit.Used, "of", limit.Max)
		}
	}
	// Output:
	// gpt-6-sol 1 open ok
	// max_rpm 1 of 500
	// max_tpm 1500 of 200000
}
