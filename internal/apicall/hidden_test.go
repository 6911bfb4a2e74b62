package apicall

import (
	"fmt"
	"testing"
)

func TestHideShowsWhatIsNoSecret(t *testing.T) {
	tests := []struct {
		name   string
		fields []string
		want   string
	}{
		{"nothing", nil, "T{}"},
		{"a key", []string{"APIKey", "sk-1", "Project", "p"}, `T{APIKey:"(hidden)", Project:"p"}`},
		{"no key", []string{"APIKey", "", "AdminKey", ""}, `T{}`},
		{"a base URL", []string{"BaseURL", "https://a.example/v1"}, `T{BaseURL:"https://a.example/v1"}`},
		{"a password", []string{"BaseURL", "https://u:secret@a.example/?key=secret#secret"}, `T{BaseURL:"https://u:xxxxx@a.example/"}`},
		{"not a URL", []string{"BaseURL", "secret:sk-1"}, `T{BaseURL:"(not valid)"}`},
		{"a broken URL", []string{"BaseURL", "https://secret:%zz"}, `T{BaseURL:"(not valid)"}`},
	}
	for _, tt := range tests {
		h := Hide("T", tt.fields...)
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if got := fmt.Sprintf(format, h); got != tt.want {
				t.Errorf("%s: %s prints %s, want %s", tt.name, format, got, tt.want)
			}
		}
		if got := fmt.Sprintf("%d %q", h, h); got != fmt.Sprintf("%%!d(%s) %q", tt.want, tt.want) {
			t.Errorf("%s: prints %s", tt.name, got)
		}
		if got, err := h.MarshalText(); string(got) != tt.want || err != nil {
			t.Errorf("%s: encodes %s, %v", tt.name, got, err)
		}
	}
}
