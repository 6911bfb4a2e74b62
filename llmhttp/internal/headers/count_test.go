package headers

import "testing"

func TestLeastCount(t *testing.T) {
	for _, test := range []struct {
		values []string
		want   int // -1: none
	}{
		{nil, -1},
		{[]string{"7"}, 7},
		{[]string{" 7.00 "}, 7},
		{[]string{"9, 7, x", "8"}, 7},
		{[]string{"1,000"}, -1},
		{[]string{"-1"}, -1},
		{[]string{"1.5", "0"}, 0},
		{[]string{"1099511627776"}, int(min(int64(MaxCount), int64(^uint(0)>>1)))},
		{[]string{"1099511627777"}, -1},
	} {
		got, ok := LeastCount(test.values)
		if !ok {
			got = -1
		}
		if got != test.want {
			t.Errorf("%q: got %d, want %d", test.values, got, test.want)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]string{
		"36": "36s", "0.25": "250ms", "90000": "25h0m0s",
		"": "", "90000.1": "", "-1": "", "1e3": "", "36s": "",
	} {
		got := ""
		if d, ok := ParseSeconds(text); ok {
			got = d.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestIsHost(t *testing.T) {
	for host, want := range map[string]bool{
		"groq.com": true, "api.groq.com": true, "API.GROQ.COM:443": true, "groq.com.": true,
		"notgroq.com": false, "groq.com.example": false, "com": false, "": false, "[::1]:80": false,
	} {
		if got := IsHost(host, "groq.com"); got != want {
			t.Errorf("%q: got %t", host, got)
		}
	}
}
