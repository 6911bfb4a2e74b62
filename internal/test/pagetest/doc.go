// Package pagetest looks at package debugpage with a browser, headless Chromium, and takes the
// picture of it for the documents. Only tests are in it. Without Chromium they are skipped.
//
//	go test -run TestPicture -update
//
// writes docs/images/debugpage.png anew.
package pagetest
