// tests/support/corpus.h: where the real programs are.
#ifndef TESTS_SUPPORT_CORPUS_H
#define TESTS_SUPPORT_CORPUS_H

// HILO_CORPUS, by default ../shared/corpus beside the repository, in which tests run; NULL if there is no such folder,
// which has been said ("skipped: ...") then: tests that need it end with 77 or cmocka's skip().
const char *test_corpus(void);

#endif
