package redisstore_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: most of the time they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}
