/*
** The SQL math functions read errno, as set by glibc, to report errors. The C library used here does not set it, so this
** header does, and supplies glibc's error messages. Include it before the SQL functions.
*/
#include <errno.h>
#include <math.h>
#include <string.h>

/* Linux's error numbers: the SQL functions also use them as the length of the message. */
#define DOMAIN_ERROR 33
#define RANGE_ERROR 34

static double checkedUnary(double argument, double result, int underflows){
  if( isnan(result) ){
    if( !isnan(argument) ) errno = DOMAIN_ERROR;
  }else if( isfinite(argument) && (isinf(result) || (underflows && result == 0)) ) errno = RANGE_ERROR;
  return result;
}

static double checkedPower(double base, double exponent){
  double result = pow(base, exponent);
  int isFinite = isfinite(base) && isfinite(exponent);
  if( isnan(result) ){
    if( !isnan(base) && !isnan(exponent) ) errno = DOMAIN_ERROR;
  }else if( isFinite && (isinf(result) || (result == 0 && base != 0)) ) errno = RANGE_ERROR;
  return result;
}

static double checkedSqrt(double x){ return checkedUnary(x, sqrt(x), 0); }
static double checkedAcos(double x){ return checkedUnary(x, acos(x), 0); }
static double checkedAsin(double x){ return checkedUnary(x, asin(x), 0); }
static double checkedSin(double x){ return checkedUnary(x, sin(x), 0); }
static double checkedCos(double x){ return checkedUnary(x, cos(x), 0); }
static double checkedTan(double x){ return checkedUnary(x, tan(x), 0); }
static double checkedLog(double x){ return checkedUnary(x, log(x), 0); }
static double checkedLog10(double x){ return checkedUnary(x, log10(x), 0); }
static double checkedExp(double x){ return checkedUnary(x, exp(x), 1); }

static const char *errorText(int number){
  return number == DOMAIN_ERROR ? "Numerical argument out of domain"
      : number == RANGE_ERROR ? "Numerical result out of range\0\0\0\0\0" : strerror(number);
}

#define sqrt checkedSqrt
#define acos checkedAcos
#define asin checkedAsin
#define sin checkedSin
#define cos checkedCos
#define tan checkedTan
#define log checkedLog
#define log10 checkedLog10
#define exp checkedExp
#define pow checkedPower
#define strerror errorText
