package sdktest

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Without the transport the SDKs run into the limit, with their retries or without: this is
// what the other tests are to be compared with.
func TestWithoutTransport(t *testing.T) {
	plain := func(base http.RoundTripper) http.RoundTripper { return base }
	for i := range apis {
		for _, retries := range []bool{false, true} {
			s := scenario{api: &apis[i], retries: retries, length: time.Millisecond, calls: 3 * perWindow}
			t.Run(s.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := s.run(t, plain)
					t.Log(r)
					if r.stats.Refused < perWindow || r.failed == 0 && !retries {
						t.Error("the limit did not bind")
					}
					if r.stats.Requests-r.stats.Refused != s.calls-r.failed || r.open != 0 {
						t.Errorf("%d calls, %d of them failed, but %d requests, %d of them refused; %d ends open",
							s.calls, r.failed, r.stats.Requests, r.stats.Refused, r.open)
					}
				})
			})
		}
	}
}
